"""The tile of targets of the near field, which ``p2p.py`` describes."""

from kernels.blocks.walk import begin_copies, bound, clip, take_system
from parki.runtime.scopes import block


@block(
    reads="cutoff origin shape team tiles trg width",
    writes=(
        "bottom0 bottom1 bottom2 box copy0 first first0 first1 hi0 hi1 hi2 inverse last last0 "
        "last1 lo0 lo1 lo2 system top0 top1 top2"
    ),
)
def begin_tile():
    """Set first and last to a tile's targets, first0 ... last1 to the columns in its reach.

    In a tilted box no columns are in reach before its first copy.
    """
    tile: int = team.league_rank()
    take_system(tile)
    first: int = tiles[1][tile]
    last: int = tiles[2][tile]
    bound(first, last)
    inverse: REAL = 1.0 / cutoff
    begin_copies()
    if shape[3] == 0:
        first0 = int(pk.floor((lo0 - cutoff) / width[0]))
        last0 = int(pk.floor((hi0 + cutoff) / width[0]))
        clip(0, first0, last0)
        first1 = int(pk.floor((lo1 - cutoff) / width[1]))
        last1 = int(pk.floor((hi1 + cutoff) / width[1]))
        clip(1, first1, last1)
