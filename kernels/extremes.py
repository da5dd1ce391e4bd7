"""What the boundary asks about rows of numbers.

In `extremes`, the smallest and largest value of each row, one work item owns every n-th column. Two
passes leave few enough numbers for the host. So it is in `ratios`, of one pass. In `count_invalid`
and `replace_invalid` it owns one column; the host waits for one number, which is there before later
launches are done.
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


@pk.workunit
def ratios(
    i: int,
    total: int,
    items: int,
    largest: REAL,
    values: pk.View1D[REAL],
    density: pk.View1D[REAL],
    low: pk.View1D[REAL],
    high: pk.View1D[REAL],
):
    """Write the smallest and the largest of ``values / density`` at i, i + items, ...

    Zeros have any ratio, and leave ``largest`` and its negative where there are no others. Both are
    NaN where a ratio is not finite.
    """
    least: REAL = largest
    most: REAL = -largest
    bad: REAL = 0.0
    k: int = i
    while k < total:
        value: REAL = values[k]
        below: REAL = density[k]
        if value != 0.0 or below != 0.0:
            ratio: REAL = value / below
            bad += ratio - ratio
            least = pk.fmin(least, ratio)
            most = pk.fmax(most, ratio)
        k = k + items
    low[i] = least + bad
    high[i] = most + bad


@pk.workunit
def count_invalid(
    i: int,
    values: pk.View2D[REAL],
    rows: int,
    least: REAL,
    most: REAL,
    invalid: pk.View1D[pk.double],
):
    """Count values that are not finite, or neither 0 nor of a size from ``least`` to ``most``."""
    for r in range(rows):
        size: REAL = pk.fabs(values[r][i])
        fits: int = 0
        if size >= least and size <= most:
            fits = 1
        if size == 0.0:
            fits = 1
        if fits == 0:
            pk.atomic_add(invalid, [0], 1.0)


@pk.workunit
def replace_invalid(
    i: int,
    values: pk.View2D[REAL],
    edgewise: pk.View2D[REAL],
    lowest: pk.View1D[REAL],
    highest: pk.View1D[REAL],
    inside: pk.View1D[REAL],
    invalid: pk.View1D[pk.double],
):
    """Count a vector whose product with ``edgewise`` is not from ``lowest`` to ``highest``.

    ``inside`` takes its place.
    """
    x: REAL = values[0][i]
    y: REAL = values[1][i]
    z: REAL = values[2][i]
    fits: int = 0
    for d in range(3):
        along: REAL = edgewise[d][0] * x + edgewise[d][1] * y + edgewise[d][2] * z
        if along >= lowest[d] and along <= highest[d]:
            fits = fits + 1
    if fits < 3:
        for d in range(3):
            values[d][i] = inside[d]
        pk.atomic_add(invalid, [0], 1.0)
