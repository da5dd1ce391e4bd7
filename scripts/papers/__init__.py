"""Comparisons with what the source papers of spreading and gathering built: see compare_papers.py.

A module for each says what is compared; ``measure`` returns numbers, ``tables`` and ``draw`` show
them. `cases` has what they share: clocks, and spreading and gathering by any method.
"""
