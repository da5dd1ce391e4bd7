"""One-shot sums over the points of all ranks: a plan used once.

As in `parki.ewald`, with ``comm``: each rank of it passes its own points, in any order and anywhere
in the box, perhaps none, and gets the results at its own targets. All ranks make the same calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parki.distributed.plan import Plan as Plan
from parki.distributed.plan import sum_once
from parki.ewald.api import calls
from parki.ewald.options import EwaldOptions
from parki.typing import Array, OptionKeywords, ResultName, Unpack

if TYPE_CHECKING:
    from parki.ewald.calls import *  # noqa: F403


def _sum(
    kernel: str,
    trg: Array,
    src: Array,
    dens: Array,
    norms: Array | EwaldOptions | None = None,
    options: EwaldOptions | None = None,
    *,
    comm: Any = None,
    want: ResultName | tuple[ResultName, ...] = "u",
    **keywords: Unpack[OptionKeywords],
) -> Any:
    """Sum {words.title}: ``{words.formula}``.

    This is `parki.{call}` over the points of all ranks.

    {about}

    Parameters
    ----------
    trg, src : array, shape (3, Nt) and (3, Ns), float32 or float64
        Targets and sources of this rank, of which there may be none.
    {common}
    comm : mpi4py.MPI.Comm, optional
        The ranks that take part. Default: all (``COMM_WORLD``).
    {want}

    Returns
    -------
    array, or a tuple of arrays in the order of ``want``
        At the targets of this rank, in their order.

    {raises}, on all ranks.

    Examples
    --------
    >>> import numpy as np, parki
    >>> rng = np.random.default_rng(0)
    {arrays}
    >>> options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1])
    >>> parki.distributed.{call}({given}).shape
    {found}
    """
    return sum_once(kernel, trg, src, dens, norms, options, keywords, comm=comm, want=want)


_calls = calls(_sum)
globals().update(_calls)
if not TYPE_CHECKING:
    __all__ = ["Plan", *_calls]
