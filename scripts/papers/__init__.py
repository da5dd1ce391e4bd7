"""Comparisons with the methods of other papers and libraries.

`methods` has spreading and gathering by any method, and `free_space` sums in free space.
"""
