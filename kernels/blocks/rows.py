"""How sources lie in memory: each quantity in a row of its own."""


def take(array, row, at, value):
    """Take a quantity of source ``at`` to value."""
    value: REAL = array[row][at]
