"""The walk over columns of cells, which ``p2p.py`` describes.

``shape`` has the numbers of cells along each axis; the number of a tilted box's copies in reach,
or 0; and 1 if each system has a box of its own, or 0. As they decide what is done for a run of
sources, not for a pair, they are arguments: all boxes have the same kernels.
"""

from parki.runtime.scopes import block


@block(reads="shape tiles", writes="box copy0 system")
def take_system(tile):
    """Take the first column of a tile's system, and where its box and its copies begin.

    If each system has a box of its own, it has three numbers of ``origin`` and ``width``, and as
    many columns of ``copies`` as the others.
    """
    which: int = tiles[0][tile] // (shape[0] * shape[1])
    system: int = which * (shape[0] * shape[1])
    box: int = 3 * which * shape[4]
    copy0: int = which * shape[3] * shape[4]


@block(reads="box origin trg", writes="hi0 hi1 hi2 lo0 lo1 lo2")
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
    lo0 = lo0 - origin[box]
    hi0 = hi0 - origin[box]
    lo1 = lo1 - origin[box + 1]
    hi1 = hi1 - origin[box + 1]
    lo2 = lo2 - origin[box + 2]
    hi2 = hi2 - origin[box + 2]


@block(
    reads="hi0 hi1 hi2 lo0 lo1 lo2",
    writes="bottom0 bottom1 bottom2 first0 first1 last0 last1 top0 top1 top2",
)
def begin_copies():
    """Keep the bounding box of a tile, and begin a tilted box's copy without columns in reach."""
    bottom0: REAL = lo0
    top0: REAL = hi0
    bottom1: REAL = lo1
    top1: REAL = hi1
    bottom2: REAL = lo2
    top2: REAL = hi2
    first0: int = 0
    last0: int = 0 - 1
    first1: int = 0
    last1: int = 0 - 1


@block(
    reads=(
        "bottom0 bottom1 bottom2 box copies copy cutoff first0 first1 hi0 hi1 hi2 last0 last1 lo0 "
        "lo1 lo2 shape top0 top1 top2 width"
    ),
    writes="first0 first1 hi0 hi1 hi2 last0 last1 lo0 lo1 lo2",
)
def meet_copy():
    """Bound the tile as a copy of a tilted box sees it, and find the columns in reach.

    The rows of ``copies`` are half of each shift, and then the second parts of whole shifts.
    """
    lo0 = bottom0 - 2.0 * copies[0][copy]
    hi0 = top0 - 2.0 * copies[0][copy]
    lo1 = bottom1 - 2.0 * copies[1][copy]
    hi1 = top1 - 2.0 * copies[1][copy]
    lo2 = bottom2 - 2.0 * copies[2][copy]
    hi2 = top2 - 2.0 * copies[2][copy]
    first0 = int(pk.floor((lo0 - cutoff) / width[box]))
    last0 = int(pk.floor((hi0 + cutoff) / width[box]))
    clip(0, first0, last0)
    first1 = int(pk.floor((lo1 - cutoff) / width[box + 1]))
    last1 = int(pk.floor((hi1 + cutoff) / width[box + 1]))
    clip(1, first1, last1)
    if lo2 - cutoff > REAL(shape[2]) * width[box + 2] or hi2 + cutoff < 0.0 or last1 < first1:
        first0 = 0
        last0 = 0 - 1


@block(reads="shape")
def clip(axis, first, last):
    """Clip the cells ``first`` to ``last`` to the ends of a free axis, or of a tilted box."""
    if PERIODIC <= axis or shape[3] > 0:
        if first < 0:
            first = 0
        if last > shape[axis] - 1:
            last = shape[axis] - 1


@block(reads="half shape")
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


@block(reads="copies copy half shape")
def shift(axis, cell, image, source, target):
    """Do the same, where in a tilted box the whole tile meets one copy of the box at a time."""
    if PERIODIC > axis:
        if shape[3] > 0:
            source = copies[axis][copy]
            target = target - source
        else:
            wrap(axis, cell, image, source, target)
