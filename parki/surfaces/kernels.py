"""Kernels of layers near a surface, as blocks of pairs: one formula for each layer and result.

Each takes functions in place of 1/r^k. With r = d + b n0, where n0 is the normal at the nearest
point and b the signed distance, b^2 becomes r^2 - |xi|^2 (`across`) before 1/r^k is replaced, so
that every power of 1/r^k meets only moments that vanish. What is left with one factor b has the
jump. With 1/r^k itself, and without jumps, each is the kernel of the sum of the same name. Without
n0 each has the numerators of that kernel, whatever is in place of 1/r^k.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from parki.surfaces.functions import Functions, Singular, Smooth
from parki.typing import AnyArray, ArrayModule


@dataclass(frozen=True)
class SurfacePairs:
    """Pairs of a target and a node.

    Attributes
    ----------
    offset : array, shape (3, n), or (3, targets, nodes) without n0
        Target minus node, r in the formulas.
    normal : array, shape (3, n)
        At the node, n. Without n0, its other axes and those of the direction go with those of r.
    direction : array, shape (3, n)
        Of tractions at the target, e.
    functions : Functions, Smooth or Singular
        What is in place of 1/r^k: ``functions[k]`` and ``functions.jump(k)``.
    n0 : array, shape (3, n), optional
        Normal at the point of the surface that is nearest to the target.
    distance : array, shape (n,), optional
        Signed distance of the target from that point, b.
    """

    xp: Any
    offset: Any
    normal: Any
    direction: Any
    functions: Functions | Smooth | Singular
    n0: Any = None
    distance: Any = None

    @property
    def d(self) -> Any:
        """The nearest point minus the node."""
        return self.offset - self.distance * self.n0

    @property
    def lin(self) -> Any:
        """What is in place of b / r^5."""
        return self.distance * self.functions[5] + self.functions.jump(5)

    @property
    def mid(self) -> Any:
        """What is in place of b^2 / r^5."""
        return self.functions[3] - self.functions.across * self.functions[5]


def _dot(a: AnyArray, b: AnyArray) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _squares(p: SurfacePairs, factor: AnyArray) -> Any:
    """Return r r times a factor, shape (3, 3, ...)."""
    out = p.xp.empty((3, *p.offset.shape))
    for i in range(3):
        along = p.offset[i] * factor
        for j in range(i, 3):
            out[i, j] = along * p.offset[j]
            out[j, i] = out[i, j]
    return out


def _vector(p: SurfacePairs) -> Any:
    """Return r / r^3, shape (3, n)."""
    return (
        p.offset * p.functions[3]
        if p.n0 is None
        else p.offset * p.functions[3] + p.n0 * p.functions.jump(3)
    )


def _tensor(p: SurfacePairs, n: AnyArray) -> Any:
    """Return r r (r.n) / r^5, shape (3, 3, n)."""
    if p.n0 is None:
        return _squares(p, p.functions[5] * _dot(p.offset, n))
    d, n0, lin, mid = p.d, p.n0, p.lin, p.mid
    nu, eta = _dot(n0, n), _dot(d, n)
    cube = (
        p.distance * p.functions[3] + p.functions.jump(3) - p.functions.across * lin
    )  # in place of b^3 / r^5
    dd = eta * p.functions[5] + nu * lin
    dn = eta * lin + nu * mid
    nn = eta * mid + nu * cube
    mixed = d[:, None] * n0[None]
    return (
        d[:, None] * d[None] * dd
        + (mixed + mixed.transpose(1, 0, 2)) * dn
        + n0[:, None] * n0[None] * nn
    )


def single_velocity(p: SurfacePairs) -> Any:
    """Return 1/r + r r/r^3."""
    one, three = p.functions[1], p.functions[3]
    block = _squares(p, three)
    for i in range(3):
        block[i, i] += one
    if p.n0 is not None:
        block += p.n0[:, None] * p.n0[None] * (one - _dot(p.offset, p.offset) * three)
    return block


def single_pressure(p: SurfacePairs) -> Any:
    """Return 2 r/r^3."""
    return 2 * _vector(p)[None]


def single_traction(p: SurfacePairs) -> Any:
    """Return -6 r r (r.e)/r^5."""
    return -6 * _tensor(p, p.direction)


def double_velocity(p: SurfacePairs) -> Any:
    """Return -6 r r (r.n)/r^5."""
    return -6 * _tensor(p, p.normal)


def double_pressure(p: SurfacePairs) -> Any:
    """Return 4 (n/r^3 - 3 r (r.n)/r^5)."""
    if p.n0 is None:
        return (
            4
            * (
                p.normal * p.functions[3]
                - 3 * p.offset * (_dot(p.offset, p.normal) * p.functions[5])
            )[None]
        )
    d, n0, three, five, lin = p.d, p.n0, p.functions[3], p.functions[5], p.lin
    nu, eta = _dot(n0, p.normal), _dot(d, p.normal)
    along = (p.normal - nu * n0) * three - 3 * d * eta * five - 3 * (n0 * eta + d * nu) * lin
    return 4 * (along + n0 * nu * (3 * p.functions.across * five - 2 * three))[None]


def double_traction(p: SurfacePairs) -> Any:
    """Return the traction of a double layer along e, which needs constants made exact.

    -4 e n/r^3 - 6 (r (r.n) e + (r.e)(r.n) + (n.e) r r + n (r.e) r)/r^5 + 60 r r (r.e)(r.n)/r^7
    """
    if p.n0 is None:
        return _plain_traction(p)
    d, n0, across, f = p.d, p.n0, p.functions.across, p.functions
    first = p.distance * f[7] + f.jump(7)  # in place of b / r^7
    five = f[5], p.lin, p.mid  # in place of b^j / r^5, and then / r^7
    square = 2 * across * f[5] - across**2 * f[7]
    seven = f[7], first, f[5] - across * f[7], p.lin - across * first, f[3] - square
    n, e = (_dot(d, p.normal), _dot(n0, p.normal)), (_dot(d, p.direction), _dot(n0, p.direction))
    rows = list(zip(d, n0, strict=True))
    twice, facing = _product(e, n), _dot(p.normal, p.direction)
    out = p.xp.empty((3, 3, p.distance.size))
    for i, j in itertools.product(range(3), repeat=2):
        outer = _product(rows[i], rows[j])
        value = facing * _with(outer, five) + p.direction[j] * _with(_product(rows[i], n), five)
        value = value + p.normal[i] * _with(_product(e, rows[j]), five)
        if i == j:
            value = value + _with(twice, five)
        out[i, j] = (
            -4 * p.direction[i] * p.normal[j] * f[3]
            - 6 * value
            + 60 * _with(_product(outer, twice), seven)
        )
    return out


def _plain_traction(p: SurfacePairs) -> Any:
    along, facing, opposite = (
        _dot(p.offset, p.normal),
        _dot(p.offset, p.direction),
        _dot(p.normal, p.direction),
    )
    block = _squares(p, 60 * p.functions[7] * along * facing - 6 * p.functions[5] * opposite)
    three, five = 4 * p.functions[3], 6 * p.functions[5]
    for i, j in itertools.product(range(3), repeat=2):
        block[i, j] -= three * p.direction[i] * p.normal[j]
        block[i, j] -= five * (
            along * p.offset[i] * p.direction[j] + facing * p.normal[i] * p.offset[j]
        )
        if i == j:
            block[i, j] -= five * along * facing
    return block


def _product(a: AnyArray, b: AnyArray) -> list[Any]:
    """Return the product of two polynomials of b, by their coefficients."""
    product: list[Any] = [0.0] * (len(a) + len(b) - 1)
    for (i, one), (j, other) in itertools.product(enumerate(a), enumerate(b)):
        product[i + j] = product[i + j] + one * other
    return product


def _with(polynomial: AnyArray, powers: AnyArray) -> Any:
    return sum(coefficient * power for coefficient, power in zip(polynomial, powers, strict=True))


def charge_potential(p: SurfacePairs) -> Any:
    """Return 1/r."""
    return p.functions[1][None, None]


def dipole_potential(p: SurfacePairs) -> Any:
    """Return r.n/r^3."""
    return _dot(_vector(p), p.normal)[None, None]


@dataclass(frozen=True)
class Layer:
    """A layer and one of its results.

    Attributes
    ----------
    block : callable
        The kernel of `SurfacePairs`, shape (rows, columns, n).
    rows, columns : int
        Numbers of components of a result and of a density.
    want : str
        What the sum has to give: tractions are made of stresses.
    exact : float, optional
        Inside of a closed surface, what the layer of 1 is; None for single layers. The layers of
        constants are made exact.
    first : int
        First component of a density with this exact value: those before it are of a single layer.
    jump : float, optional
        Outside minus inside, for a density of 1 (pressures: along the normal); None if a result
        has a singularity as 1/r^3, with derivatives of the density in its jump.
    parts : tuple of 2 keys
        The layers whose sum it is, with a density each.
    """

    block: Callable[[SurfacePairs], Any]
    rows: int
    columns: int
    want: str
    exact: float | None = None
    first: int = 0
    jump: float | None = None
    parts: tuple[tuple[str, str], ...] = ()

    def jumps(self, xp: ArrayModule, n: AnyArray, e: AnyArray) -> Any:
        """Return the jumps at normals n (3, n) along directions e, (rows, columns, n)."""
        jumps = xp.eye(self.rows, self.columns, self.first)[:, :, None] + 0 * n[0]
        if self.jump is None:
            return 0 * jumps
        if self.rows == 1 and self.columns == 3:  # pressures
            jumps = n[None]
        elif self.want == "stress":
            along = _dot(n, e)
            mixed = n[:, None] * (e - along * n)
            jumps = jumps * along + mixed + mixed.transpose(1, 0, 2)
        return self.jump * jumps

    def missing(self, xp: ArrayModule, inside: AnyArray, sums: AnyArray) -> Any:
        """Return errors of sums of constants (rows, columns, n), with ``inside`` of 1 inside."""
        eye = xp.eye(self.rows, self.columns, self.first)[:, :, None]
        errors = (self.exact or 0.0) * eye * inside - sums
        errors[:, : self.first] = 0.0
        return errors


def _both(want: str) -> Layer:
    """Return the sum of both layers, with one density above the other."""
    keys = ("stokes_sl", want), ("stokes_dl", want)
    single, double = (LAYERS[key] for key in keys)

    def block(p: SurfacePairs) -> Any:
        return p.xp.concatenate([single.block(p), double.block(p)], axis=1)

    columns = single.columns + double.columns
    return replace(double, block=block, columns=columns, first=single.columns, parts=keys)


WHOLE, POINT = 8 * math.pi, 4 * math.pi  # what sums leave out, of Stokes and of Laplace

LAYERS = {
    ("stokes_sl", "u"): Layer(single_velocity, 3, 3, "u", jump=0.0),
    ("stokes_sl", "p"): Layer(single_pressure, 1, 3, "p", jump=WHOLE),
    ("stokes_sl", "traction"): Layer(single_traction, 3, 3, "stress", jump=-WHOLE),
    ("stokes_dl", "u"): Layer(double_velocity, 3, 3, "u", WHOLE, jump=-WHOLE),
    ("stokes_dl", "p"): Layer(double_pressure, 1, 3, "p", 0.0),
    ("stokes_dl", "traction"): Layer(double_traction, 3, 3, "stress", 0.0),
    ("laplace", "u"): Layer(charge_potential, 1, 1, "u", jump=0.0),
    ("laplace_dipole", "u"): Layer(dipole_potential, 1, 1, "u", -POINT, jump=POINT),
}
for _want in ("u", "p", "traction"):
    LAYERS["stokes_comb", _want] = _both(_want)
