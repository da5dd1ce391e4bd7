"""Sums over many ranks: slabs of the box, one for each rank of an MPI communicator.

api          the public calls: the sums and `Plan` of `parki.ewald`, with a communicator
spheres      `parki.Spheres`, with a communicator
team         the ranks, and their agreement, first of all on failure
transport    moves arrays between ranks                      (device)
axes         the order of the axes; slabs divide the first one
slabs        which rank owns which planes of the grid, by the work there
routes       points from the ranks that gave them to their slabs, and results back
near         the near field of a slab, and the ghosts it needs
far          the far field of a slab: P2G, FGC, G2P
halo         grid planes that several ranks touch
fgc          FFT, convolution, inverse FFT over the ranks
swap         from slabs of one axis to slabs of another
plan         joins these with the stages of `parki.ewald`, which are independent of ranks
"""

from typing import TYPE_CHECKING

from parki.distributed import api
from parki.distributed import ewald as ewald  # where the calls were before version 0.3
from parki.distributed.api import *  # noqa: F403
from parki.distributed.device import use_local_gpu as use_local_gpu
from parki.distributed.plan import Plan as Plan
from parki.distributed.spheres import Spheres as Spheres

if not TYPE_CHECKING:  # type checkers have the calls from `calls.pyi`
    __all__ = ["Spheres", "use_local_gpu", *api.__all__]
