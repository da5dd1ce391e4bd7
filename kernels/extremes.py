"""Smallest and largest values of rows of numbers: one work item owns every n-th column.

Two passes leave few enough numbers for the host, which would otherwise wait for the device.
"""

import pykokkos as pk

REAL = pk.double


@pk.workunit
def extremes(
    i: int,
    total: int,
    items: int,
    rows: int,
    lows: pk.View2D[REAL],
    highs: pk.View2D[REAL],
    low: pk.View2D[REAL],
    high: pk.View2D[REAL],
):
    """Write the smallest of ``lows`` and the largest of ``highs`` in columns i, i + items, ...

    Both are NaN where a value is not finite.
    """
    for r in range(rows):
        least: REAL = lows[r][i]
        most: REAL = highs[r][i]
        bad: REAL = 0.0
        k: int = i
        while k < total:
            below: REAL = lows[r][k]
            above: REAL = highs[r][k]
            bad += (below - below) + (above - above)
            least = pk.fmin(least, below)
            most = pk.fmax(most, above)
            k = k + items
        low[r][i] = least + bad
        high[r][i] = most + bad
