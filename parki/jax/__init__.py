"""parki's sums as functions of JAX, with derivatives by densities, normals and points.

``u = parki.jax.stokes_sl(points, points, forces, options)`` is `parki.stokes_sl` for arrays of JAX,
on the CPU or a GPU, also within ``jax.jit``, ``jax.grad``, ``jax.jvp`` and ``jax.vmap``: see
``docs/derivatives.md``. `apply` is a plan as a function of densities, `energy` the energy of
charges, and `sphere_velocities` has what `parki.Spheres` computes.

``import parki`` does not import this module, which needs JAX.

arrays        the sums and their derivatives, of arrays with values
primitives    the same as primitives of JAX: XLA calls parki, which works in its buffers
energies      the energy of charges
rules         the primitives' derivatives, and maps over an axis
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import numpy as jnp

from parki.core import (
    SUMS,
    Batch,
    EwaldOptions,
    LinearMap,
    OwnBox,
    Plan,
    calls,
    check_normals,
    of_first,
    own_boxes,
    refuse_voltage,
    take_options,
    take_squares,
)
from parki.errors import ParkiTypeError, ParkiValueError
from parki.jax import rules
from parki.jax.arrays import SumCall
from parki.jax.energies import energy as energy
from parki.jax.primitives import LINEAR, SUM, varying
from parki.meaning import refuse_meaning
from parki.suspensions.functions import velocities
from parki.suspensions.radii import Radii
from parki.typing import AnyArray, Boxes, OfPoints, OptionKeywords, Periodicities, Unpack

if TYPE_CHECKING:
    from parki.ewald.calls import *  # noqa: F403

rules.register()


def _sum(
    kernel: str,
    trg: AnyArray,
    src: AnyArray,
    dens: AnyArray,
    norms: AnyArray = None,
    options: EwaldOptions | None = None,
    *,
    systems: OfPoints | None = None,
    boxes: Boxes | None = None,
    periodicities: Periodicities | None = None,
    **keywords: Unpack[OptionKeywords],
) -> jax.Array:
    """Sum {words.title}: ``{words.formula}``.

    This is `parki.{call}` for arrays of JAX.

    {about}

    Parameters
    ----------
    trg, src : jax.Array, shape (3, Nt) and (3, Ns), float32 or float64
        Targets and sources, on one device; or tracers of JAX. The same array as both has
        derivatives in both roles. Other arguments than arrays are constant.
    {common}
    systems, boxes, periodicities : optional
        Where the points of many systems begin, a box for each of them, and its periodic axes: see
        `parki.Plan`. They are constants, but ``boxes`` may be an array of JAX, with first
        derivatives.

    Returns
    -------
    jax.Array, shape {shape}
        With derivatives in forward and in reverse mode: by densities of any order, and twice by
        others. Where the argument ``box`` is an array of JAX, it has derivatives, too; it may be
        given with ``options``, whose box it replaces.

    {raises}, and where derivatives are asked for that parki does not have.
        Within ``jit``, values that are impossible raise an error of JAX, with the same words.

    Examples
    --------
    >>> import jax, parki.jax
    {arrays}
    >>> options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-4)
    >>> def total({words.variable}):
    ...     return parki.jax.{call}({given}).sum()
    >>> jax.grad(total)({words.variable}).shape == {words.variable}.shape
    True
    """
    system_boxes = own_boxes(None if isinstance(boxes, jax.Array) else boxes, periodicities)
    norms, options, box = _taken(norms, options, keywords, system_boxes, boxes)
    check_normals(SUMS[kernel], norms)
    named = {"trg": trg, "src": src, "dens": dens, **box}
    if trg is src:  # in both roles
        del named["src"]
    if norms is not None:
        named["norms"] = norms
    arrays = {name: as_jax(name, value) for name, value in named.items()}
    if not isinstance(boxes, jax.Array):
        return _bound(SumCall(kernel, options, Batch.of(systems, system_boxes)), arrays)
    batch = Batch.of(systems, system_boxes or ([1, 1, 1],) * len(boxes))._replace(boxes=None)
    axes = None if system_boxes is None else tuple(one.periodicity for one in system_boxes)
    arrays["box"] = arrays["box"].astype(arrays["trg"].dtype)
    return _bound(SumCall(kernel, options, batch, in_array=True, periodicities=axes), arrays)


def _widths(
    name: str, keywords: Any, trg: AnyArray, src: AnyArray, norms: Any, options: Any, in_boxes: bool
) -> tuple[Any, Any, Any, Any]:
    """Return a kernel, and the squares of the widths of each point: see `take_squares`."""
    return take_squares(
        name,
        keywords,
        as_jax("trg", trg),
        as_jax("src", src),
        norms,
        options,
        in_boxes=in_boxes,
        known=_known_widths,
        like=lambda widths, count: jnp.broadcast_to(jnp.asarray(widths, trg.dtype), count),
        join=jnp.concatenate,
    )


def _known_widths(widths: AnyArray) -> AnyArray:
    try:
        return np.asarray(jax.lax.stop_gradient(widths))
    except jax.errors.TracerArrayConversionError as error:
        raise ParkiTypeError(
            "epsilon is traced by jax.jit, jax.vmap or the like, and its smallest and largest "
            "values choose the sum; give it as a constant, or leave jit out around its derivative"
        ) from error


_calls = calls(_sum, "jax.Array", "jax.random.uniform(jax.random.key(0), {})", widths=_widths)
globals().update(_calls)
if not TYPE_CHECKING:
    __all__ = ["apply", "energy", "sphere_velocities", *_calls]


def apply(plan: Plan, dens: AnyArray) -> jax.Array:
    """Return ``plan(dens)``, with derivatives of any order by the density.

    The plan's points have no derivatives. The derivative in reverse mode is
    `Plan.adjoint`: a sum of the same matrix, transposed.

    Parameters
    ----------
    plan : Plan
        With one result, as of ``want="u"``.
    dens : jax.Array
        As for a call of the plan.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        As of the plan and of its adjoint; and if the plan was given other points between the sum
        and its derivative.
    """
    values = as_jax("dens", dens)
    result: jax.Array = LINEAR.bind(
        values, plan=LinearMap(plan), transposed=False, of_change=False, device=None
    )
    return result


def sphere_velocities(
    points: AnyArray,
    radii: AnyArray,
    forces: AnyArray,
    torques: AnyArray = None,
    options: EwaldOptions | None = None,
    *,
    viscosity: float = 1.0,
    **keywords: Unpack[OptionKeywords],
) -> Any:
    """Return the velocities of spheres, with derivatives by positions, forces and torques.

    This is `parki.Spheres` for arrays of JAX, made of the sums of this module.

    Parameters
    ----------
    points, radii, options, viscosity, **keywords
        As for `parki.Spheres`. Radii and viscosity are constants.
    forces, torques : jax.Array or None
        As for `parki.Spheres.velocities`. Options may take the place of torques.

    Returns
    -------
    jax.Array, or tuple of 2 arrays
        As of `parki.Spheres.velocities`, with the derivatives that sums have.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, and where second derivatives are asked for that parki lacks.
    """
    torques, options, box = _taken(torques, options, keywords)
    centres = as_jax("points", points)
    forces = None if forces is None else as_jax("forces", forces)
    torques = None if torques is None else as_jax("torques", torques)

    sizes = Radii.of(radii, centres.shape[-1])
    point_radii = (
        {}
        if sizes.point_radii is None
        else {"norms": jnp.asarray(sizes.point_radii, dtype=centres.dtype)}
    )

    def total(kernel: str, dens: AnyArray) -> Any:
        return _bound(
            SumCall(kernel, options), {"trg": centres, "dens": dens, **point_radii, **box}
        )

    return velocities(total, centres, sizes.kernels, (forces, torques), viscosity)


def _taken(
    norms: AnyArray,
    options: Any,
    keywords: OptionKeywords,
    system_boxes: tuple[OwnBox, ...] | None = None,
    boxes: Boxes | None = None,
) -> tuple[Any, EwaldOptions, Any]:
    """Return normals, options, and the box or boxes by name, if they are an array of JAX.

    Such a box takes the place of the options' own one, whose values are then not used.
    """
    refuse_voltage(keywords, norms, options)
    box: Any = keywords.get("box")
    if not isinstance(box, jax.Array):
        first, named = of_first(system_boxes), dict[str, Any]()
        if isinstance(boxes, jax.Array):
            first, named = {"box": (1, 1, 1), **first}, {"box": boxes}
        return *take_options(norms, options, keywords, first=first), named
    if system_boxes is not None or boxes is not None:
        raise ParkiValueError(
            "box is an array of JAX, but systems have boxes of their own; pass them as an array, "
            "boxes"
        )
    others: OptionKeywords = {**keywords}
    del others["box"]
    if others:
        others["box"] = [1, 1, 1]
    norms, options = take_options(norms, options, others)
    return norms, options, {"box": box}


def _bound(call: SumCall, named: dict[str, Any]) -> jax.Array:
    """Return a sum of arrays by name, without "src" if the targets are the sources."""
    arrays = _varying_alike([*named.values()])
    result: jax.Array = SUM.bind(*arrays, call=call, names=tuple(named), of_change=False)
    return result


def as_jax(name: str, value: Any) -> jax.Array:
    """Return a value as an array of JAX, or refuse it."""
    if not isinstance(value, (jax.Array, list, tuple)):  # of these, some may be traced
        refuse_meaning(name, value)
    try:
        result: jax.Array = jnp.asarray(value)
    except Exception as error:  # whatever JAX has to say
        raise ParkiTypeError(
            f"{name} is a {type(value).__name__}; expected an array that JAX takes ({error})"
        ) from error
    if value is None:  # which JAX takes for NaN
        raise ParkiTypeError(f"{name} is a NoneType; expected an array of numbers")
    return result


def _varying_alike(arrays: list[jax.Array]) -> list[jax.Array]:
    """Return arrays that vary over the same devices within `jax.shard_map`, as JAX's checks ask."""
    over = [varying(jax.typeof(array)) for array in arrays]
    axes = frozenset().union(*over)
    return [
        jax.lax.pcast(array, tuple(axes - varies), to="varying") if axes - varies else array
        for array, varies in zip(arrays, over, strict=True)
    ]
