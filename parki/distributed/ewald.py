"""One-shot sums over the points of all ranks: a plan used once.

As in `parki.ewald`, with ``comm``: each rank of it passes its own points, in any order and anywhere
in the box, perhaps none, and gets the results at its own targets. All ranks make the same calls.
"""

from __future__ import annotations

from typing import Any

from parki.distributed.plan import Plan, sum_once
from parki.ewald.options import EwaldOptions

__all__ = [
    "Plan",
    "laplace",
    "stokes_comb",
    "stokes_dipole",
    "stokes_dl",
    "stokes_rotlet",
    "stokes_sl",
]

Want = str | tuple[str, ...]


def stokes_comb(
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    comm: Any = None,
    want: Want = "u",
) -> Any:
    """Sum the combined single and double layer of Stokes flow: see `parki.ewald.stokes_comb`.

    Parameters
    ----------
    trg, src, dens, norms, options, want
        As there; the points, densities and normals of this rank.
    comm : mpi4py.MPI.Comm, optional
        The ranks that take part. Default: all (``COMM_WORLD``).

    Returns
    -------
    array, or tuple of arrays
        At the targets of this rank, in their order.
    """
    return sum_once(("stokes_comb", trg, src, norms, options), dens, comm, want)


def stokes_sl(
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    comm: Any = None,
    want: Want = "u",
) -> Any:
    """Sum the single layer: `parki.ewald.stokes_sl` over the points of all ranks."""
    return sum_once(("stokes_sl", trg, src, norms, options), dens, comm, want)


def stokes_dl(
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    comm: Any = None,
    want: Want = "u",
) -> Any:
    """Sum the double layer: `parki.ewald.stokes_dl` over the points of all ranks."""
    return sum_once(("stokes_dl", trg, src, norms, options), dens, comm, want)


def stokes_rotlet(
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    comm: Any = None,
    want: Want = "u",
) -> Any:
    """Sum rotlets: `parki.ewald.stokes_rotlet` over the points of all ranks."""
    return sum_once(("stokes_rotlet", trg, src, norms, options), dens, comm, want)


def stokes_dipole(
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    comm: Any = None,
    want: Want = "u",
) -> Any:
    """Sum dipoles of forces: `parki.ewald.stokes_dipole` over the points of all ranks."""
    return sum_once(("stokes_dipole", trg, src, norms, options), dens, comm, want)


def laplace(
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    comm: Any = None,
    want: Want = "u",
) -> Any:
    """Sum point charges: `parki.ewald.laplace` over the points of all ranks."""
    return sum_once(("laplace", trg, src, norms, options), dens, comm, want)
