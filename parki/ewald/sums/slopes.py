"""The derivatives of a sum by its points and normals, which are composites of other sums.

With values v at the targets, the transposed sum is a flow w. A source's part of ``v.u`` is
``f.w`` for a force and ``D_jk d_k w_j`` for a dipole. A double layer is the dipole
``-(q n^T + n q^T)``, with ``q.n`` times the pressure. Its gradient is the
derivative by the source. See ``docs/derivatives.md``.

Maps find "dens" and "norms" of the sum in ``at``. For a change it has the changes, by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from parki.ewald.sums.adjoint import Adjoint, traction, velocity
from parki.ewald.sums.composite import Addend
from parki.ewald.sums.maps import Arrays, Map

Composites = Mapping[str, tuple[Addend, ...]]  # by the name of an input


def of_vectors(found: Arrays, at: Arrays) -> Any:
    """Return ``sum_i f_i d_k w_i``, of charges or of vectors f in the first rows of a density."""
    slopes = _slopes(found)
    return (at["dens"][: len(slopes), None] * slopes).sum(axis=0)


def of_tensors(found: Arrays, at: Arrays) -> Any:
    """Return what tensor targets at the sources feel."""
    return found["grad_tensor"]


def of_both(found: Arrays, at: Arrays) -> Any:
    """Return the sum of both: forces, and double layers as tensor targets."""
    return of_vectors(found, at) + found["grad_tensor"]


def layer_tensors(at: Arrays) -> Any:
    """Return the tensor targets (10, N) of double layers: rows D_jk, then s."""
    q, norms = at["dens"][-3:], at["norms"]
    rows = np.zeros_like(q, shape=(10, q.shape[1]))
    products = q[:, None] * norms
    rows[:9] = -(products + products.swapaxes(0, 1)).reshape(9, -1)
    rows[9] = (q * norms).sum(axis=0)
    return rows


def dipole_tensors(at: Arrays) -> Any:
    """Return the tensor targets (10, N) of dipoles, which have no strength."""
    dens = at["dens"]
    return np.concatenate([dens, np.zeros_like(dens[:1])])


def by_normals(found: Arrays, at: Arrays) -> Any:
    """Return the derivative by normals, to which q is what they are to q."""
    return traction(found, {"norms": at["dens"][-3:]})


def of_layers(want: tuple[str, ...], sources: Map) -> Composites:
    """Return what double layers are pulled by; ``want`` is what their traction needs."""
    tensors = Addend("", (*want, "grad_tensor"), sources, tensors=layer_tensors)
    return {"src": (tensors,), "norms": (Addend("", want, by_normals),)}


def by_dipoles(kernel: str) -> Composites:
    """Return the change of a sum whose sources change: they are dipoles along their changes."""

    def products(dens: Any, at: Arrays) -> Any:
        return (dens[:, None] * at["src"]).reshape(3 * len(dens), dens.shape[1])

    return {"src": (Addend(kernel, ("u",), velocity, products),)}


def by_gradients(of: Adjoint) -> Composites:
    """Return the derivative by the sources from the gradient's adjoint, an axis at a time.

    A source's part of it is its density times this adjoint.
    """

    def part(axis: int) -> Addend:
        def results(found: Arrays, at: Arrays) -> Any:
            return _on(axis, -(at["dens"] * of.results(found, at)).sum(axis=0, keepdims=True))

        return Addend(of.kernel, of.want, results, lambda values, at: _on(axis, values))

    return {"src": tuple(map(part, range(3)))}


def _against(axis: int) -> Addend:
    """Return the change of a sum whose sources move along an axis, as do targets the other way."""
    return Addend(
        "",
        ("grad_u",),
        lambda found, at: -_slopes(found)[:, axis],
        lambda dens, at: dens * at["src"][axis],
    )


def _slopes(found: Arrays) -> Any:
    """Return the gradient by component and axis, (results, 3, N)."""
    rows, count = found["grad_u"].shape
    return found["grad_u"].reshape(rows // 3, 3, count)


def _on(axis: int, values: Any) -> Any:
    """Return values (rows, N) as vectors along an axis, (3 rows, N)."""
    rows = np.zeros_like(values, shape=(len(values), 3, values.shape[1]))
    rows[:, axis] = values
    return rows.reshape(3 * len(values), values.shape[1])


VECTORS: Composites = {"src": (Addend("", ("grad_u",), of_vectors),)}
MOVED: Composites = {"src": tuple(map(_against, range(3)))}
# The sum is linear in normals, as in q.
_NORMALS = Addend(
    "stokes_dl", ("u",), velocity, lambda dens, _: dens[-3:], normals=lambda _, at: at["norms"]
)
MOVED_LAYERS: Composites = {**MOVED, "norms": (_NORMALS,)}
# All sums have these. What multiplies the sum takes the place of the density in ``at``.
TARGETS = VECTORS["src"]
MOVED_TARGETS = (
    Addend("", ("grad_u",), lambda found, at: (_slopes(found) * at["trg"]).sum(axis=1)),
)
UNMOVED = (Addend("", ("u",), velocity),)
