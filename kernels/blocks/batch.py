"""The walk of `p2g_block` and `g2p_block` over points: batches whose windows fit into a block."""

from kernels.blocks.window import place
from parki.runtime.scopes import block


@block(reads="cells", writes="high0 high1 high2 low0 low1 low2")
def begin_batch():
    """Declare the first and last cells of a batch that has no points yet."""
    low0: int = cells[0]
    low1: int = cells[1]
    low2: int = cells[2]
    high0: int = 0
    high1: int = 0
    high2: int = 0


@block(
    reads="cells high0 high1 high2 inverse_step low0 low1 low2",
    writes="c0 c1 c2 h0 h1 h2 l0 l1 l2 z0 z1 z2",
)
def reach(points, at):
    """Place a point; declare l0, h0 and so on, the first and last cells of the batch with it."""
    place(points, at)
    l0: int = low0
    l1: int = low1
    l2: int = low2
    h0: int = high0
    h1: int = high1
    h2: int = high2
    if c0 < l0:
        l0 = c0
    if c1 < l1:
        l1 = c1
    if c2 < l2:
        l2 = c2
    if c0 > h0:
        h0 = c0
    if c1 > h1:
        h1 = c1
    if c2 > h2:
        h2 = c2


@block(reads="h0 h1 h2 l0 l1 l2", writes="high0 high1 high2 low0 low1 low2")
def take_point():
    """Take the point that `reach` found into the batch."""
    low0 = l0
    low1 = l1
    low2 = l2
    high0 = h0
    high1 = h1
    high2 = h2
