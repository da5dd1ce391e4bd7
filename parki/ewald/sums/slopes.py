"""`Slopes`: how the derivatives of a sum by normals and sources follow from the transposed sum.

With values v at the targets, the transposed sum is a flow w. A source's part of ``v.u`` is
``f.w`` for a force and ``D_jk d_k w_j`` for a dipole. A double layer is the dipole
``-(q n^T + n q^T)``, with ``q.n`` times the pressure. Its gradient is the
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


def of_tensors(found: Arrays, dens: Any) -> Any:
    """Return what tensor targets at the sources feel."""
    return found["grad_tensor"]


def of_both(found: Arrays, dens: Any) -> Any:
    """Return the sum of both: forces, and double layers as tensor targets."""
    return of_vectors(found, dens) + of_tensors(found, dens)


def layer_tensors(dens: Any, norms: Any) -> Any:
    """Return the tensor targets (10, N) of double layers: rows D_jk, then s."""
    q = dens[-3:]
    rows = np.zeros_like(dens, shape=(10, dens.shape[1]))
    products = q[:, None] * norms
    rows[:9] = -(products + products.swapaxes(0, 1)).reshape(9, -1)
    rows[9] = (q * norms).sum(axis=0)
    return rows


def dipole_tensors(dens: Any, norms: Any) -> Any:
    """Return the tensor targets (10, N) of dipoles, which have no strength."""
    rows = np.zeros_like(dens, shape=(10, dens.shape[1]))
    rows[:9] = dens
    return rows


def by_normals(found: Arrays, dens: Any) -> Any:
    """Return the derivative by normals, to which q is what they are to q."""
    return traction(found, dens[-3:])[0]


class SourceDisplacement(NamedTuple):
    """First-order change of the sum under source displacement, as one sum.

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
    """Return the products of a density's rows with a velocity's."""
    return (dens[:, None] * velocity).reshape(-1, dens.shape[1])


class Slopes(NamedTuple):
    """Derivatives of a sum, and of the transposed one: arrays have shape (rows, N).

    Attributes
    ----------
    want : tuple of str
        What the derivative by the sources needs of the transposed sum.
    sources : callable or None
        ``sources(results, density)``: that derivative, (3, N). None where it takes three adjoints
        of the gradient.
    tensors : callable or None
        ``tensors(density, normals)``: the sources as tensor targets (10, N) of the
        transposed sum.
    normals : callable or None
        ``normals(results, density)``: the derivative by the normals, of what the adjoint needs.
    layer : str
        The sum of the double layer alone, in which normals and q may be exchanged.
    displacement : SourceDisplacement or None
        None where only three gradients of the sum itself tell what moving sources changes.
    """

    want: tuple[str, ...]
    sources: Callable[[Arrays, Any], Any] | None
    tensors: Callable[[Any, Any], Any] | None = None
    normals: Callable[[Arrays, Any], Any] | None = None
    layer: str = ""
    displacement: SourceDisplacement | None = None


VECTORS = Slopes(("grad_u",), of_vectors)
