"""Comparisons with the methods of other papers and libraries.

A module for each says what is compared; ``measure`` returns numbers, ``tables`` and ``draw`` show
them. `cases` has their common parts: clocks, and spreading and gathering by any method.
"""
