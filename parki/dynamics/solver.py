r"""The equations of rigid spheres, and their preconditioner, for `parki.dynamics.conjugate`.

`RigidEquations` has the matrices at the present points. `Motion` is what a solve returns, and how
another begins with it.

What acts on the fluid, x of eleven numbers for each sphere, and what moves, v of six, obey

    M x - B v = k      kinematics: slip, and minus the strain of the flow far away
    B^T x + R v = f    balance: R is the lubrication of pairs

B^T takes forces and torques out of x. The preconditioner has a diagonal matrix D in the place of M,
a part of the mobility of a sphere alone: ``A v = f - B^T D^-1 k`` with ``A = B^T D^-1 B + R``,
which is sparse and positive. Forces and torques then follow from the balance, so that it holds
exactly in each iterate, even if A is not solved exactly. Without R the iterations are for the
stresslets alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from parki.core import EwaldOptions, like_points
from parki.dynamics import moments
from parki.dynamics.conjugate import Show, Solved, conjugate, divide, dot, dots
from parki.dynamics.lubrication import Lubrication
from parki.dynamics.moments import MomentMobility
from parki.dynamics.pair_matrix import FEWEST, PairMatrix
from parki.errors import ParkiTypeError, ParkiValueError
from parki.interchange import as_array, as_given
from parki.typing import AnyArray, DType

MOST_PRODUCTS = 200


class ClosePairs(NamedTuple):
    """The pairs that resist each other, and the same as a matrix, if there are any."""

    pairs: Lubrication | None = None
    matrix: PairMatrix | None = None


def close_pairs(
    mobility: MomentMobility, points: AnyArray, options: EwaldOptions, roughness: float
) -> ClosePairs:
    """Return the pairs of spheres that would be at points (3, N) in a box."""
    pairs = Lubrication(points.astype(np.float64), mobility.tables, options, roughness)
    if not pairs.first.size:
        return ClosePairs(pairs)
    moves = mobility.diagonal[:6:3]
    return ClosePairs(pairs, PairMatrix(mobility.space, pairs, moves))


@dataclass(frozen=True, eq=False)
class RigidEquations:
    """The matrices of rigid spheres at their present points, and how exactly they are solved.

    Attributes
    ----------
    mobility : MomentMobility
        M.
    pairs : Lubrication or None
        How close pairs resist.
    matrix : PairMatrix or None
        R: ``matrix(v)`` is its product with (6, N), ``matrix.solve(f)`` is about A^-1 f, and the
        product with that. None, if no pairs are close.
    accuracy : float
        The relative error, in the norm of the energy, at which solves stop.
    """

    mobility: MomentMobility
    pairs: Lubrication | None
    matrix: PairMatrix | None
    accuracy: float

    @property
    def xp(self) -> Any:
        """The module of arrays, NumPy or CuPy."""
        return self.mobility.space.array_module

    @property
    def count(self) -> int:
        """The number of spheres."""
        return int(self.mobility.radii.size)

    def zeros(self, rows: int) -> Any:
        """Return zeros (rows, N), float64."""
        return self.xp.zeros((rows, self.count))


class Start(NamedTuple):
    """Stresslets (5, N) and motion (6, N) to start from."""

    stresslets: Any
    moves: Any


def solve(
    equations: RigidEquations,
    k: Any,
    f: Any,
    *,
    start: Start | None = None,
    watch: Show | None = None,
    accuracy: float | None = None,
) -> Solved:
    """Solve for what acts on the fluid and what moves: see the module.

    Parameters
    ----------
    equations : RigidEquations
    k, f : array, shape (11, N) and (6, N)
    start : Start, optional
    watch : callable, optional
        Called with the error in each iteration.
    accuracy : float, optional
        In the place of that of the equations.

    Raises
    ------
    ParkiError
        If it does not converge.
    """
    mobility, resistance = equations.mobility, equations.matrix
    steps = mobility.steps.unused()
    if not equations.count:
        return Solved(0 * k, 0 * f, 0, 0.0)
    steps.begin(mobility.first.recording)
    # Axes along which a net force moves all spheres by a gauge, so that M need not be positive.
    # If there is one, R does not resist a common velocity of all spheres.
    gauged, xp = moments.gauged(mobility.options), equations.xp
    k, f, d = steps.keep(k=k, f=f, d=mobility.diagonal)
    before = None if start is None else steps.keep(stresslets=start.stresslets, before=start.moves)
    numbers = steps.numbers
    if resistance is not None:
        resistance = resistance.recorded(steps)
    if any(gauged):
        net, alone = (steps.empty(name, (3,), k.dtype) for name in ("net", "alone"))
        along = xp.asarray(gauged)

    def balanced(r: AnyArray, s: Any = None) -> tuple[Any, Any]:
        """Precondition residuals of kinematics and balance: what acts, and what moves."""
        wanted = -r[:6] / d[:6] if s is None else s - r[:6] / d[:6]
        z = r / d
        if resistance is None:
            y, resists = d[:6] * wanted, None
        else:
            y, resists = resistance.solve(wanted, mobility.inner, numbers[4:6])
        z[:6] = 0.0 if s is None else s
        if resists is not None:
            z[:6] -= resists
        return z, y

    def last(step: Any, z: AnyArray, w: AnyArray) -> tuple[Any, Any]:
        """Return a step as long as the last one in stresslets, and in motions as if D were exact.

        Steps of spheres far apart have the length `OF_STRESSLETS`, and mend motions in full.
        """
        size = 1.0 if resistance is None else np.minimum(1, step / moments.OF_STRESSLETS)
        z = step * z
        z[:6] *= size / step
        return z, size * w

    def together(residual: AnyArray, v: AnyArray) -> tuple[Any, Any]:
        """Let all spheres move by the mean of the residual, where no pair resists it.

        The balance fixes the net force, so that steps only see relative motion.
        """
        if not any(gauged):
            return residual, v
        mean = residual[:3].mean(axis=1, keepdims=True)
        residual[:3] -= mean
        v[:3] -= mean
        return residual, v

    def energy(x: AnyArray, v: AnyArray) -> Any:
        """Return the energy, with spheres alone in the place of a gauge."""
        whole = dots(equations.mobility.space, [(x, k), (v, f)]).sum()
        return whole + dot(net, alone - v[:3].mean(axis=1)) if any(gauged) else whole

    def carried(v: AnyArray) -> Any:
        moved = np.zeros_like(k)
        moved[:6] = v
        return moved

    def begin() -> tuple[Any, Any]:
        """Return forces and motions to start from, by sides that are divided by a power of 2."""
        power = divide(steps, [k, f])
        if any(gauged):
            net[...] = f[:3].sum(axis=1) * along
            alone[...] = net * mobility.alone[:3].mean(axis=1) / equations.count
        if before is None:
            return balanced(k, f)
        x, (stresslets, v) = np.zeros_like(k), (np.ldexp(each, -power) for each in before)
        x[6:] = stresslets
        x[:6] = f if resistance is None else f - resistance(v)
        return x, v

    def shown(error: float) -> None:
        if resistance is not None:
            took, left = steps.told[4:6]
            mobility.inner = resistance.enough(mobility.inner, took, left)
        if watch is not None:
            watch(error)

    mobility.inner = (mobility.inner or FEWEST) if steps.recorded else None
    found = conjugate(
        steps,
        mobility.product,
        balanced,
        carried,
        begin,
        k,
        energy,
        equations.accuracy if accuracy is None else accuracy,
        MOST_PRODUCTS,
        shown,
        last=last,
        freed=together,
        kind=lambda: (resistance is None, mobility.inner, start is None),
    ).scaled(steps.arrays["power"])
    return found if steps.told[3] else found._replace(products=0)


@dataclass(frozen=True)
class Motion:
    """How rigid spheres move, relative to the flow far away: see `RigidSpheres.solve`.

    Attributes
    ----------
    velocities, turns : array, shape (3, N)
        Velocities and angular velocities.
    stresslets : array, shape (3, 3, N)
        On the fluid: symmetric first moments of the forces, without a trace.
    products : int
        Products with the mobility that it took.
    error : float
        The estimated error: the root of the dissipation by what is left, over the whole one. In
        dense suspensions velocities alone, or stresslets alone, have up to three times that. With
        one or two periodic axes a net force moves all spheres by a gauge: the whole one is then of
        relative motion, and of that force on spheres alone.
    """

    velocities: Any
    turns: Any
    stresslets: Any
    products: int
    error: float


def motion(
    equations: RigidEquations,
    solution: Solved,
    strain: AnyArray,
    factor: float,
    back: Callable[[Any], Any],
) -> Motion:
    """Return a solution in physical units, in the library that ``back`` makes arrays of.

    ``factor`` is ``1 / (8 pi viscosity)``.
    """
    moves = factor * solution.moves
    stresslets = moments.symmetric(equations.mobility.space, solution.acts[6:])
    if equations.pairs is not None:
        stresslets += equations.pairs.acting(solution.moves, -strain)[1]
    dtype = equations.mobility.dtype
    arrays = [each.astype(dtype) for each in (moves[:3], moves[3:], stresslets)]
    velocities, turns, tensors = map(back, arrays)
    return Motion(velocities, turns, tensors, solution.products, solution.error)


def of_sets(
    solve: Callable[..., Any], dtype: DType, forces: AnyArray, torques: AnyArray
) -> tuple[Any, Any]:
    """Return velocities and turns under forces and torques, or under k sets of them, k first.

    ``solve`` has the motion of one set.
    """
    pair = [
        a if a is None else as_array(n, a) for n, a in (("forces", forces), ("torques", torques))
    ]
    arrays = [array for array in pair if array is not None]
    if all(array.ndim != 3 for array in arrays):
        one = solve(forces, torques)
        return one.velocities, one.turns
    if len(shapes := {tuple(array.shape) for array in arrays}) > 1:
        raise ParkiValueError(
            f"forces and torques have shapes {shapes}; expected as many sets of both"
        )
    moves, turns = (np.empty_like(arrays[0], dtype=dtype) for _ in range(2))
    like = torques if forces is None else forces
    for n in range(len(moves)):
        force, torque = (None if array is None else array[n] for array in pair)
        one = solve(force, torque)
        moves[n], turns[n] = as_array("moves", one.velocities), as_array("turns", one.turns)
        like = one.velocities
    return as_given(moves, like), as_given(turns, like)


def sides(
    equations: RigidEquations,
    forces: AnyArray,
    torques: AnyArray,
    gradient: AnyArray,
    factor: float,
) -> tuple[Any, Any, Any]:
    """Return slip (11, N), forces and torques (6, N), and the strain of the flow far away."""
    k, f = equations.zeros(11), equations.zeros(6)
    for rows, name, values in ((slice(3), "forces", forces), (slice(3, 6), "torques", torques)):
        if values is not None:
            f[rows] = _finite(equations, name, values)
    flow = moments.gradient(gradient, equations.mobility.options)
    strain = (flow + flow.T) / (2 * factor)
    if strain.any():
        k[6:] = -moments.five(equations.mobility.space, equations.xp.asarray(strain))[:, None]
    if strain.any() and equations.pairs is not None:
        f += equations.pairs.acting(strain=strain, stresslets=False)[0]
    return k, f, strain


def begun(
    equations: RigidEquations, start: Motion | None, strain: AnyArray, factor: float
) -> Start | None:
    """Return the motion of an earlier solve, and its stresslets without the parts of pairs."""
    if start is None:
        return None
    if not isinstance(start, Motion):
        raise ParkiTypeError(f"start is a {type(start).__name__}; expected what solve returns")
    names = "velocities", "turns", "stresslets"
    arrays = [_double(equations, f"start.{name}", getattr(start, name)) for name in names]
    for name, each in zip(names, arrays, strict=True):
        if each.shape[-1] != equations.count:
            raise ParkiValueError(
                f"start.{name} has shape {each.shape}, of other spheres; expected the "
                f"{equations.count} ones of now"
            )
    moves = equations.xp.concatenate(arrays[:2]) / factor
    if equations.pairs is not None:
        arrays[2] = arrays[2] - equations.pairs.acting(moves, -strain)[1]
    return Start(moments.five(equations.mobility.space, arrays[2]), moves)


def _double(equations: RigidEquations, name: str, values: AnyArray) -> Any:
    """Return an array of the spheres' library in double precision, or refuse it."""
    array = like_points(name, values, equations.mobility.space, equations.mobility.dtype)
    return array.astype(np.float64)


def _finite(equations: RigidEquations, name: str, values: AnyArray) -> Any:
    """Return an array (3, N) of finite numbers in double precision, or refuse it."""
    array, count = _double(equations, name, values), equations.count
    if array.shape != (3, count):
        raise ParkiValueError(
            f"{name} has shape {tuple(array.shape)}; expected (3, {count}) for the {count} "
            "spheres given"
        )
    if not bool(equations.xp.isfinite(array).all()):
        raise ParkiValueError(f"{name} contains NaN or infinity")
    return array
