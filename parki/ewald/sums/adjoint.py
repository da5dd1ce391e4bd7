"""`Adjoint`: how a result of a sum is transposed, which is a sum of another kernel.

A sum has the matrix ``K(x_t - y_s)`` from sources y to targets x. Its transpose takes values at the
targets to the sources: it is the *transposed* sum, from targets to sources, of a kernel that makes
of a vector v at x what a source at y would be multiplied by. See ``docs/derivatives.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from parki.ewald.sums.composite import Addend
from parki.ewald.sums.maps import Arrays, Map, after, fixed
from parki.ewald.sums.maps import velocity as velocity
from parki.typing import AnyArray

Mean = Callable[[AnyArray, AnyArray], AnyArray]


@fixed
def gradient(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return the gradient: row 3 j + k is the derivative of component j along axis k."""
    return results["grad_u"]


def traction(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return ``-sigma n``, sigma the stress of the transposed sum.

    The double layer's ``T_jlm(r)`` is the stress of the single layer's flow of v_j, and odd in r,
    which changes its sign when the points are transposed.
    """
    slopes = results["grad_u"].reshape(3, 3, -1)
    viscous = ((slopes + slopes.swapaxes(0, 1)) * cloud["norms"]).sum(axis=1)
    return results["p"] * cloud["norms"] - viscous


def velocity_and_traction(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return both, for the rows of the single and of the double layer."""
    return np.concatenate([results["u"], traction(results, cloud)])


def curvature(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return twice the Hessian of the potential of charges: the pressure of dipoles, transposed."""
    return 2 * results["grad_u"]


def layer_curvature(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return the transposed pressure of double layers, dipoles ``-(q n^T + n q^T)``."""
    slopes = results["grad_u"].reshape(3, 3, -1)
    return -4 * (slopes * cloud["norms"]).sum(axis=1)


def both_curvatures(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return the transposed pressures of the single and of the double layer."""
    return np.concatenate([2 * results["u"], layer_curvature(results, cloud)])


def half_curl(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return half the curl of the transposed sum: a torque turns what a force moves."""
    slopes = results["grad_u"].reshape(3, 3, -1)
    rows = slopes[0].copy()
    for axis in range(3):
        after, last = (axis + 1) % 3, (axis + 2) % 3
        rows[axis] = (slopes[last, after] - slopes[after, last]) / 2
    return rows


def mean_of_forces(values: AnyArray, points: AnyArray) -> AnyArray:
    """Return ``v.(y - x)`` of each target x, which is linear in y: slope and constant, (4, N)."""
    return np.concatenate([values, -(values * points).sum(axis=0, keepdims=True)])


def mean_of_dipoles(values: AnyArray, points: AnyArray) -> AnyArray:
    """Return ``-tr v``, the derivative of `mean_of_forces` by x: slope 0 and constant, (4, N)."""
    rows = np.zeros_like(values, shape=(4, values.shape[1]))
    rows[3] = -values[::4].sum(axis=0)
    return rows


@dataclass(frozen=True)
class Adjoint(Addend):
    """One result of a sum, transposed: its density are the values at the targets.

    Attributes
    ----------
    symmetric : bool
        True if K(r)^T = K(-r), so that the transpose is the same sum.
    tolerance_factor : float or None
        None where the transposed sum has the same symbol, window and pair function: by the same
        parameters its matrix is the same, up to rounding. Otherwise it chooses its own, by a
        tolerance smaller by this factor.
    mean : callable or None
        ``mean(values, targets)``: of a double layer without net flux, what each target adds to the
        pressure, over 8 pi / V: three components of its gradient, and a constant, (4, Nt). It is
        the mean gradient that balances forces in a triply periodic box.
    others : tuple of Adjoint
        More of them, of the same results, which add to it.
    """

    symmetric: bool = False
    tolerance_factor: float | None = None
    mean: Mean | None = None
    others: tuple[Adjoint, ...] = ()

    @property
    def all(self) -> tuple[Adjoint, ...]:
        """It and the others."""
        return self, *self.others

    def each(self, addends: tuple[Addend, ...]) -> tuple[Addend, ...]:
        """Return addends of the transposed sum, of all densities and normals that it is of."""
        return tuple(
            replace(addend, density=after(one.density, addend.density), normals=one.normals)
            for one in self.all
            for addend in addends
        )

    def add_mean(
        self,
        results: Arrays,
        values: AnyArray,
        cloud: Arrays,
        volume: float,
        total: Callable[[AnyArray], AnyArray],
        tensors: AnyArray = None,
    ) -> None:
        """Add the pressure of a layer without net flux, and what tensor targets read of it.

        ``values`` (rows, targets) are at ``cloud["trg"]``, in a box of this volume. ``total`` sums
        rows (4, targets) of all ranks, or of the system of each source, to (4, 1) or (4, sources).
        """
        if self.mean is None:
            return
        v, trg, src = (
            a.astype(np.float64, copy=False) for a in (values, cloud["trg"], cloud["src"])
        )
        sums = total(8 * math.pi / volume * self.mean(v, trg))
        if "p" in results:
            results["p"] += (sums[:3] * src).sum(axis=0) + sums[3]
        if tensors is not None:
            results["grad_tensor"] += tensors[-1] * sums[:3]


def _along(axis: int, charges: AnyArray, cloud: Arrays) -> AnyArray:
    rows = np.zeros_like(charges, shape=(3, charges.shape[1]))
    rows[axis] = charges[0] / 6
    return rows


def _axis(axis: int, norms: AnyArray, cloud: Arrays) -> AnyArray:
    rows = np.zeros_like(cloud["trg"])
    rows[axis] = 1
    return rows


def by_layers(adjoint: Adjoint, layers: str) -> Adjoint:
    """Return the adjoint of a pressure by double layers in place of the flow of charges.

    Three of them with normals along the axes, and densities of a sixth of the charges along these,
    have this flow, of blobs of the layers' shape.
    """
    first, *others = (
        replace(adjoint, kernel=layers, density=partial(_along, n), normals=partial(_axis, n))
        for n in range(3)
    )
    return replace(first, others=(*others,))


def of_pressure(want: tuple[str, ...], rows: Map, factor: float) -> Adjoint:
    """Return the adjoint of a pressure, by the flow of charges and its gradient."""
    return Adjoint("multipole_flow(order=0)", want, rows, tolerance_factor=factor)


def of_itself(kernel: str) -> Adjoint:
    """Return the adjoint of a symmetric kernel."""
    return Adjoint(kernel, ("u",), velocity, symmetric=True)
