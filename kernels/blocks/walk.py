"""The walk over columns of cells, which ``p2p.py`` describes."""


def bound(first, last):
    """Set lo0, hi0 and so on to the bounding box of targets ``first`` to ``last`` - 1."""
    lo0: REAL = trg[0][first]
    hi0: REAL = lo0
    lo1: REAL = trg[1][first]
    hi1: REAL = lo1
    lo2: REAL = trg[2][first]
    hi2: REAL = lo2
    for t in range(first + 1, last):
        lo0 = pk.fmin(lo0, trg[0][t])
        hi0 = pk.fmax(hi0, trg[0][t])
        lo1 = pk.fmin(lo1, trg[1][t])
        hi1 = pk.fmax(hi1, trg[1][t])
        lo2 = pk.fmin(lo2, trg[2][t])
        hi2 = pk.fmax(hi2, trg[2][t])
    # The tile's bounding box is relative to the cells' corner; positions are not.
    lo0 = lo0 - origin[0]
    hi0 = hi0 - origin[0]
    lo1 = lo1 - origin[1]
    hi1 = hi1 - origin[1]
    lo2 = lo2 - origin[2]
    hi2 = hi2 - origin[2]


def clip(axis, first, last):
    """Clip the cells ``first`` to ``last`` to the ends of a free axis."""
    if PERIODIC <= axis:
        if first < 0:
            first = 0
        if last > shape[axis] - 1:
            last = shape[axis] - 1


def wrap(axis, cell, image, source, target):
    """Wrap a cell along a periodic axis, and shift source and target to the images that meet.

    They are ``image`` periods apart, and each takes half of the shift, which is exact at the faces.
    For the second parts of positions, twice ``image`` times ``half_low`` remains.
    """
    if PERIODIC > axis:
        image = 0
        while cell < 0:
            cell = cell + shape[axis]
            image = image - 1
        while cell >= shape[axis]:
            cell = cell - shape[axis]
            image = image + 1
        source = REAL(image) * half[axis]
        target = target - source
