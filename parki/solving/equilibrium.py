"""`equilibrate`: charges or dipoles that respond to a potential, where their energy is least.

The energy is a quadratic form of the unknowns x, with the matrix A of a plan:

    E(x) = 1/2 x.(A x + h x) + b.x

Charges may have totals that are kept. Conjugate gradients then stay among changes that keep these,
as in Nocedal and Wright, Numerical Optimization (2006), algorithm 16.2.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from parki.core import SUMS, LinearMap, Plan
from parki.errors import ParkiError, ParkiTypeError, ParkiValueError
from parki.interchange import as_array, as_given, number, to_host, whole
from parki.typing import AnyArray, Array


class Equilibrium(NamedTuple):
    """What `equilibrate` returns.

    Attributes
    ----------
    values : array, shape (N,) or (3, N)
        The charges, or dipoles.
    energy : float
        ``1/2 x.(A x + hardness x) + linear.x`` of these.
    levels : ndarray, shape (G,)
        ``A x + hardness x + linear`` of each group whose total is kept: the derivative of the
        energy by that total, such as the electronegativity that its charges have in common.
    products : int
        Products with the plan.
    error : float
        The residual, relative to the size of what adds up to it.
    """

    values: Any
    energy: float
    levels: Any
    products: int
    error: float


def equilibrate(
    plan: Plan[Any],
    linear: float | Array,
    *,
    hardness: float | Array = 0.0,
    total: float | Array | None = None,
    groups: Array | None = None,
    start: Array | None = None,
    accuracy: float = 1e-8,
    most: int = 500,
) -> Equilibrium:
    """Return the charges, or dipoles, of least energy, by conjugate gradients around a plan.

    The energy is ``1/2 x.(A x + hardness x) + linear.x``, where ``A x`` is ``plan(x)``. It does not
    change to first order with x, so that forces on points are the forces between fixed charges.

    Parameters
    ----------
    plan : Plan
        Of points that are targets and sources, whose matrix is symmetric: of "laplace" or "yukawa"
        for charges, or of "laplace_dipole" with ``want="grad_u"`` for dipoles. With ``epsilon`` the
        energy of each charge alone is in A.
    linear : float or array, shape (N,) or (3, N)
        Electronegativities; potentials of other charges, less the one that an electrode is held at;
        or for dipoles minus the field.
    hardness : float or array
        What each charge or dipole adds to its own energy: half of it times the square. Of dipoles
        the inverse polarisability, of all or each (N,).
    total : float or array, shape (G,), optional
        What charges add up to: all of them, or those of each group.
    groups : array of int, shape (N,), optional
        The group of each charge, from 0 to G - 1. Default: one group of all.
    start : array, optional
        Where to begin, such as the last solution. Default: zeros, or equal charges in each group.
    accuracy : float
        The residual, relative to the size of what adds up to it, at which to stop.
    most : int
        Most products with the plan.

    Returns
    -------
    Equilibrium
        Named tuple of values, energy, levels, products and error.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible; before any work. Or if there is no least energy.
    ParkiError
        If the error is not as small after the most products.

    Examples
    --------
    Three charges of one molecule, which is neutral:

    >>> import numpy as np, parki
    >>> points = np.array([[0.0, 0.1, 0.0], [0.0, 0.0, 0.1], [0.0, 0.0, 0.0]])
    >>> plan = parki.Plan("laplace", points, points, periodicity=0, epsilon=0.05, tolerance=1e-9)
    >>> found = parki.equilibrate(plan, np.array([3.0, 1.0, 1.0]), hardness=5.0, total=0.0)
    >>> bool(found.values[0] < 0 < found.values[1]), abs(round(found.values.sum(), 12))
    (True, 0.0)
    """
    problem = _Problem.of(plan, linear, hardness, total, groups, start)
    accuracy = number("accuracy", accuracy, "a number between 0 and 1, such as 1e-8")
    if not 0 < accuracy < 1:
        raise ParkiValueError(f"accuracy is {accuracy:g}; expected a number between 0 and 1")
    most = whole("most", most, "the most products with the plan")
    x = problem.begin()
    product = problem.product(x)
    slope = product + problem.linear
    scale = max(_norm(product), _norm(problem.linear))
    residual = problem.free(slope)
    direction, size, products = -residual, _norm(residual), 1
    while size > accuracy * scale and products < most:
        along = problem.product(direction)
        products += 1
        curvature = _dot(direction, along)
        if curvature <= 0:
            raise ParkiValueError(
                "the energy has no least value: with some changes of the charges or dipoles it "
                "falls without end; give wider charges (epsilon), a larger hardness, or their total"
            )
        step = size**2 / curvature
        x += step * direction
        product += step * along
        scale = max(scale, _norm(product))
        before, residual = size, problem.free(product + problem.linear)
        size = _norm(residual)
        direction = (size / before) ** 2 * direction - residual
    error = size / scale if scale else 0.0
    if error > accuracy:
        raise ParkiError(
            f"the charges or dipoles have an error of {error:.2g} after {products} products with "
            f"the plan; expected {accuracy:.2g}: give a larger accuracy, more products (most), or "
            "start where the last solve ended"
        )
    energy = _dot(x, product) / 2 + _dot(problem.linear, x)
    levels = problem.means(product + problem.linear)
    return Equilibrium(as_given(x, linear), energy, to_host(levels), products, error)


class _Problem(NamedTuple):
    """A plan with what is added to its energy, and groups of charges whose totals are kept."""

    plan: Plan[Any]
    linear: Any
    hardness: Any
    totals: Any  # (G,), or no group
    groups: Any  # (N,), or None
    counts: Any
    start: Any

    @classmethod
    def of(
        cls, plan: Any, linear: Any, hardness: Any, total: Any, groups: Any, start: Any
    ) -> _Problem:
        """Check what was given."""
        LinearMap.check_plan(plan)
        shape, density = plan.shapes_for("equilibrate")
        kind = SUMS[plan.kernel] if isinstance(plan.kernel, str) else None
        transposed = kind and kind.adjoints.get(plan.want)
        symmetric = kind and transposed and transposed.kernel == kind.name
        if shape != density or not symmetric or not plan.points.same:
            raise ParkiValueError(
                f"the plan of {plan.kernel} makes results of shape {shape} of densities of shape "
                f"{density}; expected a symmetric one, of charges or of dipoles with "
                "want='grad_u', whose targets are its sources: one array, given twice"
            )
        xp, dtype = plan.space.array_module, plan.points.trg.dtype

        def full(name: str, values: Any, of: tuple[int, ...] = shape) -> Any:
            array = xp.asarray(as_array(name, values) if np.ndim(values) else values)
            if array.dtype.kind not in "biuf":
                raise ParkiTypeError(f"{name} has dtype {array.dtype}; expected real numbers")
            array = array.astype(dtype, copy=False)
            try:
                array = xp.broadcast_to(array, of)
            except ValueError:
                raise ParkiValueError(
                    f"{name} has shape {array.shape}; expected a number, or an array of shape {of}"
                ) from None
            if not bool(xp.isfinite(array).all()):
                raise ParkiValueError(f"{name} has values that are not finite; expected numbers")
            return array

        linear, hardness = full("linear", linear), full("hardness", hardness)
        start = full("start", 0.0 if start is None else start)
        counts, totals = xp.zeros(0), xp.zeros(0)
        if total is None:
            if groups is not None:
                raise ParkiValueError("groups was given without total; give the total of each")
            return cls(plan, linear, hardness, totals, None, counts, start)
        if len(shape) > 1:
            raise ParkiValueError("total was given, which dipoles do not have; leave it out")
        number_of = 1 if np.ndim(total) == 0 else len(total)
        totals = full("total", total, (number_of,))
        labels = xp.zeros(shape, dtype=np.int64)
        if groups is not None:
            labels = xp.asarray(as_array("groups", groups))
        counts = xp.zeros(number_of)
        suitable = labels.shape == shape and labels.dtype.kind in "iu" and shape[0]
        if suitable and int(labels.min()) >= 0 and int(labels.max()) < number_of:
            labels = labels.astype(np.int64)
            counts = xp.bincount(labels, minlength=number_of)
        if not bool((counts > 0).all()):
            raise ParkiValueError(
                f"groups has shape {labels.shape} and dtype {labels.dtype}; expected a whole "
                f"number from 0 to {number_of - 1} for each of {shape[0]} charges, and a charge in "
                "each group, as total has a number for each"
            )
        return cls(plan, linear, hardness, totals, labels, counts, start)

    def begin(self) -> Any:
        """Return values with these totals near the start."""
        x = self.start.copy()
        if self.groups is not None:
            lacking = self.totals / self.counts - self.means(x)
            x += lacking[self.groups].astype(x.dtype)
        return x

    def product(self, x: AnyArray) -> Any:
        """Return the slope of the quadratic part."""
        return self.plan(x) + self.hardness * x

    def means(self, x: AnyArray) -> Any:
        """Return the mean of each group, (G,)."""
        if self.groups is None:
            return self.totals
        xp = self.plan.space.array_module
        return xp.bincount(self.groups, weights=x, minlength=self.counts.size) / self.counts

    def free(self, x: AnyArray) -> Any:
        """Return the part of changes that keeps the totals."""
        return x if self.groups is None else x - self.means(x)[self.groups].astype(x.dtype)


def _dot(a: AnyArray, b: AnyArray) -> float:
    """Return the sum of products, in double precision."""
    return float((a.astype(np.float64, copy=False) * b).sum())


def _norm(a: AnyArray) -> float:
    return math.sqrt(_dot(a, a))
