"""How sources lie in memory: all quantities of one side by side.

Lanes that read sources here and there then need not fetch as many lines of memory as quantities.
"""


def take(array, row, at, value):
    """Take a quantity of source ``at`` to value."""
    value: REAL = array[at][row]
