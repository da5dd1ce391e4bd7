"""One-shot sums over the points of all ranks: a plan used once.

As in `parki.ewald`, with ``comm``: each rank of it passes its own points, in any order and anywhere
in the box, perhaps none, and gets the results at its own targets. All ranks make the same calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, overload

from parki.distributed.plan import Plan, sum_once
from parki.ewald.api import sums_by
from parki.ewald.options import EwaldOptions
from parki.typing import Array, ArrayT, OptionKeywords, ResultName

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "Plan",
    "laplace",
    "laplace_dipole",
    "stokes_comb",
    "stokes_dipole",
    "stokes_dl",
    "stokes_rotlet",
    "stokes_sl",
]


class OneShotOfRanks(Protocol):
    """A sum over all ranks as a function: one array, or a tuple where a tuple is wanted."""

    __name__: str

    @overload
    def __call__(
        self,
        trg: Array,
        src: Array,
        dens: ArrayT,
        norms: Array | EwaldOptions | None = None,
        options: EwaldOptions | None = None,
        *,
        comm: Any = None,
        want: ResultName = "u",
        **keywords: Unpack[OptionKeywords],
    ) -> ArrayT: ...
    @overload
    def __call__(
        self,
        trg: Array,
        src: Array,
        dens: ArrayT,
        norms: Array | EwaldOptions | None = None,
        options: EwaldOptions | None = None,
        *,
        comm: Any = None,
        want: tuple[ResultName, ...],
        **keywords: Unpack[OptionKeywords],
    ) -> tuple[ArrayT, ...]: ...


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
    return sum_once((kernel, trg, src, norms, options, keywords), dens, comm, want)


_one_shot: Callable[[Callable[[], None]], OneShotOfRanks] = sums_by(_sum)


@_one_shot
def stokes_comb() -> None:
    """Sum the combined single and double layer of Stokes flow: see `parki.ewald.stokes_comb`.

    Parameters
    ----------
    trg, src, dens, norms, options, want, **keywords
        As there; the points, densities and normals of this rank.
    comm : mpi4py.MPI.Comm, optional
        The ranks that take part. Default: all (``COMM_WORLD``).

    Returns
    -------
    array, or tuple of arrays
        At the targets of this rank, in their order.
    """


@_one_shot
def stokes_sl() -> None:
    """Sum the single layer: `parki.ewald.stokes_sl` over the points of all ranks."""


@_one_shot
def stokes_dl() -> None:
    """Sum the double layer: `parki.ewald.stokes_dl` over the points of all ranks."""


@_one_shot
def stokes_rotlet() -> None:
    """Sum rotlets: `parki.ewald.stokes_rotlet` over the points of all ranks."""


@_one_shot
def stokes_dipole() -> None:
    """Sum dipoles of forces: `parki.ewald.stokes_dipole` over the points of all ranks."""


@_one_shot
def laplace() -> None:
    """Sum point charges: `parki.ewald.laplace` over the points of all ranks."""


@_one_shot
def laplace_dipole() -> None:
    """Sum dipoles of charges: `parki.ewald.laplace_dipole` over the points of all ranks."""
