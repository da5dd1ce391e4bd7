"""`Slopes`: how the derivatives of a sum by normals and sources follow from the exchanged sum.

With values v at the targets, the exchanged sum is a flow w, and what it makes of a source is the
source's part of ``v.u``: ``f.w`` of a force, ``D_jk d_k w_j`` of a dipole, and of a double layer
that of the dipole ``-(q n^T + n q^T)`` with ``q.n`` times the pressure. Its gradient is the
derivative by the source. See ``docs/derivatives.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from parki.ewald.sums.adjoint import Arrays, traction


def of_vectors(found: Arrays, dens: Any) -> Any:
    """Return ``sum_i f_i d_k w_i``, of charges or of vectors f in the first rows of a density."""
    slopes = found["grad_u"].reshape(-1, 3, dens.shape[1])
    return (dens[: len(slopes), None] * slopes).sum(axis=0)


def of_probes(found: Arrays, dens: Any) -> Any:
    """Return what probes at the sources feel."""
    return found["grad_probe"]


def of_both(found: Arrays, dens: Any) -> Any:
    """Return the sum of both: forces, and double layers as probes."""
    return of_vectors(found, dens) + of_probes(found, dens)


def layer_probes(dens: Any, norms: Any) -> Any:
    """Return the probes (10, N) of double layers: rows D_jk, then s."""
    q = dens[-3:]
    rows = np.zeros_like(dens, shape=(10, dens.shape[1]))
    products = q[:, None] * norms
    rows[:9] = -(products + products.swapaxes(0, 1)).reshape(9, -1)
    rows[9] = (q * norms).sum(axis=0)
    return rows


def dipole_probes(dens: Any, norms: Any) -> Any:
    """Return the probes (10, N) of dipoles, which have no strength."""
    rows = np.zeros_like(dens, shape=(10, dens.shape[1]))
    rows[:9] = dens
    return rows


def by_normals(found: Arrays, dens: Any) -> Any:
    """Return the derivative by normals, to which q is what they are to q."""
    return traction(found, dens[-3:])[0]


class Moved(NamedTuple):
    """What a sum changes by when sources move, as a single sum of another kernel.

    Attributes
    ----------
    kernel, want : str
    density : callable
        ``density(dens, velocity)``: its density (rows, N).
    factor : float
        What its result is multiplied by.
    """

    kernel: str
    want: str
    density: Callable[[Any, Any], Any]
    factor: float = 1.0


def products(dens: Any, velocity: Any) -> Any:
    """Return the products of a density's rows with those of a velocity."""
    return (dens[:, None] * velocity).reshape(-1, dens.shape[1])


class Slopes(NamedTuple):
    """Derivatives of a sum, and of the exchanged one: arrays have shape (rows, N).

    Attributes
    ----------
    want : tuple of str
        What the derivative by the sources needs of the exchanged sum.
    sources : callable
        ``sources(results, density)``: that derivative, (3, N).
    probes : callable or None
        ``probes(density, normals)``: probes at the sources, as targets of the exchanged sum.
    normals : callable or None
        ``normals(results, density)``: the derivative by the normals, of what the adjoint needs.
    layer : str
        The sum of the double layer alone, in which normals and q are alike.
    moved : Moved or None
        None where only three gradients of the sum itself tell what moving sources changes.
    """

    want: tuple[str, ...]
    sources: Callable[[Arrays, Any], Any]
    probes: Callable[[Any, Any], Any] | None = None
    normals: Callable[[Arrays, Any], Any] | None = None
    layer: str = ""
    moved: Moved | None = None


VECTORS = Slopes(("grad_u",), of_vectors)
