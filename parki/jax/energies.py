"""`energy`: the energy of charges as a function of arrays of JAX."""

from __future__ import annotations

from typing import Any

import jax

from parki import jax as of_arrays
from parki.core import Batch, EwaldOptions, energy_of_sums
from parki.typing import AnyArray, Boxes, OfPoints, OptionKeywords, Periodicities, Unpack


def energy(
    points: AnyArray,
    charges: AnyArray,
    options: EwaldOptions | None = None,
    *,
    rows: bool | None = None,
    kappa: float | None = None,
    epsilon: float | AnyArray = 0.0,
    systems: OfPoints | None = None,
    boxes: Boxes | None = None,
    periodicities: Periodicities | None = None,
    **keywords: Unpack[OptionKeywords],
) -> jax.Array:
    """Return the energy of charges, with derivatives by positions, charges and box.

    This is the energy of `parki.energy` for arrays of JAX, made of the sums of this module. Forces
    are minus its derivative by the points, and stress is its derivative by a strain of points and
    box, over the volume: see the examples.

    Parameters
    ----------
    points : jax.Array, shape (N, 3) or (3, N), float32 or float64
    charges : jax.Array, shape (N,)
    options, rows, kappa, systems, boxes, periodicities, **keywords
        As for `parki.energy`. They are constants, except that ``box``, or ``boxes``, may be an
        array of JAX; ``box`` also with ``options``, whose box it replaces.
    epsilon : float, or array of shape (N,)
        Width of Gaussian charges, one for all, or of each with derivatives by it; outside of
        ``jax.jit``, which hides their values.

    Returns
    -------
    jax.Array, shape () or (S,)
        ``1/2 sum q phi``, or a number for each system.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, and where derivatives are asked for that parki does not have.

    Examples
    --------
    The forces and the stress of an ion and its images:

    >>> import jax, parki.jax
    >>> from jax import numpy as jnp
    >>> options = parki.EwaldOptions(periodicity=3, box=[2, 2, 2], tolerance=1e-4)
    >>> def energy(points, strain):
    ...     deformed = jnp.eye(3) + strain
    ...     box = 2 * deformed.T
    ...     return parki.jax.energy(points @ deformed.T, jnp.ones(1), options, box=box)
    >>> value = jax.value_and_grad(energy, argnums=(0, 1))
    >>> found, (slope, by_strain) = value(jnp.ones((1, 3)), jnp.zeros((3, 3)))
    >>> forces, stress = -slope, by_strain / 8
    >>> round(float(found), 3)
    -0.709
    >>> bool(abs(stress.trace() * 8 / found + 1) < 1e-3)  # the energy is as 1 / length
    True
    """
    return energy_of_sums(
        _product,
        of_arrays.as_jax("points", points),
        of_arrays.as_jax("charges", charges),
        options=options,
        rows=rows,
        kappa=kappa,
        epsilon=epsilon,
        systems=systems,
        boxes=boxes,
        periodicities=periodicities,
        **keywords,
    )


def _product(
    name: str,
    parameters: dict[str, float],
    points: jax.Array,
    charges: jax.Array,
    *,
    systems: OfPoints | None,
    **keywords: Any,
) -> jax.Array:
    """Return half the product of charges and their potentials, or one for each system."""
    sums = getattr(of_arrays, name)
    potentials = sums(points, points, charges, systems=systems, **parameters, **keywords)
    energies = 0.5 * charges * potentials
    if systems is None:
        return energies.sum()
    owners, count = Batch.of(systems, None).owners()
    totals: jax.Array = jax.ops.segment_sum(energies, owners, count)
    return totals
