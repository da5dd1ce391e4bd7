"""`hard_spheres`: centres of spheres at random that do not overlap."""

from __future__ import annotations

import math

import numpy as np

from parki.core import EwaldOptions, take_options
from parki.errors import ParkiValueError
from parki.interchange import bincount, finite
from parki.memory import telling
from parki.runtime import get_execution_space
from parki.solving.pairs import near_pairs
from parki.suspensions.radii import lengths
from parki.typing import AnyArray, OptionKeywords, Seed, Unpack

# Spheres that are larger by this part are pushed apart, so that the overlaps of those that were
# asked for end after a number of steps: 40 at a volume fraction of 0.4, and 150 at 0.55.
LARGER, STEPS = 0.01, 1000


@telling
def hard_spheres(
    radii: AnyArray,
    options: EwaldOptions | None = None,
    *,
    gap: float = 0.0,
    rng: Seed = None,
    **keywords: Unpack[OptionKeywords],
) -> AnyArray:
    """Return centres of spheres at random that do not overlap, images included.

    Centres are uniform at first. Pairs that overlap then move apart, step by step. Up to a volume
    fraction of about 0.55 this ends. It is no sample of an equilibrium: many pairs end close to
    contact, and the density varies over long distances as if points were uniform.

    Parameters
    ----------
    radii : array, shape (N,)
        Of any sizes, in the unit of ``box``.
    options : EwaldOptions, optional
        Or its fields as keywords. Only the periodicity, the box, the walls and the execution space
        matter. Along a free axis the box has a length, and spheres are within it as a whole.
    gap : float
        Least distance of two surfaces.
    rng : numpy.random.Generator, or a seed for it
        The same seed gives the same centres.

    Returns
    -------
    array, shape (3, N), float64
        Of NumPy, or of CuPy for an execution space on a device.

    Raises
    ------
    ParkiTypeError, ParkiValueError
        If an argument is impossible, or if there are still overlaps after many steps.

    Examples
    --------
    >>> import numpy as np, parki
    >>> radii = np.repeat([1.0, 0.5], [100, 400])
    >>> edge = (4 / 3 * np.pi * (radii**3).sum() / 0.35) ** (1 / 3)  # of a volume fraction of 0.35
    >>> points = parki.hard_spheres(radii, periodicity=3, box=[edge] * 3, rng=0)
    >>> pairs = parki.near_pairs(points, points, 2.0, periodicity=3, box=[edge] * 3)
    >>> bool((pairs.distances > radii[pairs.targets] + radii[pairs.indices]).all())
    True
    """
    _, options = take_options(None, options, keywords)
    sizes = lengths(radii, np.size(radii))
    if sizes.ndim != 1 or not sizes.all():
        what = f"shape {sizes.shape}" if sizes.ndim != 1 else "0"
        raise ParkiValueError(
            f"radii has {what}; expected shape (N,), a positive length for each of the spheres"
        )
    least = finite("gap", gap, "a length, the least distance of surfaces")
    if least < 0:
        raise ParkiValueError(f"gap is {gap!r}; expected a length, the least distance of surfaces")
    if None in options.edges:
        raise ParkiValueError(
            f"box is {options.box!r}; spheres are placed in a box with a length along each axis, "
            "also along free ones"
        )
    space = get_execution_space(options.execution_space or "CPU")
    box = EwaldOptions(options.periodicity, options.box, execution_space=space)  # without walls
    xp, vectors, free = space.array_module, options.vectors, ~np.array(options.periodic)[:, None]
    ends = (
        np.where(free, sizes, -math.inf),
        np.where(free, vectors.diagonal()[:, None] - sizes, math.inf),
    )
    if (ends[0] > ends[1]).any():
        raise ParkiValueError(
            f"radii has {sizes.max():g}, whose sphere does not fit into box={options.box!r} along "
            "a free axis; give smaller radii, or a longer box"
        )
    volume = 4 / 3 * math.pi * float((sizes**3).sum()) / abs(np.linalg.det(vectors))
    reach = 2 * float(sizes.max(initial=0.0)) + least
    start = vectors.T @ np.random.default_rng(rng).random((3, sizes.size))
    points, sizes, low, high = (xp.asarray(array) for array in (start, sizes, *ends))
    for _ in range(STEPS if sizes.size else 0):
        points = xp.clip(points, low, high)
        pairs = near_pairs(points, points, (1 + LARGER) * reach, box)
        first, second, distances = pairs.targets, pairs.indices, pairs.distances
        apart = sizes[first] + sizes[second] + least
        overlap = distances < apart
        if not bool(overlap.any()):
            break
        if bool((overlap & (first == second)).any()):
            raise ParkiValueError(
                f"radii has {float(sizes.max()):g}, whose sphere meets its own image in "
                f"box={options.box!r}; give smaller radii, or a larger box"
            )
        depth = xp.maximum((1 + LARGER) * apart - distances, 0.0)
        part = sizes[second] / (sizes[first] + sizes[second])  # the smaller one moves more
        pushes = part * depth / xp.maximum(distances, 1e-9 * reach) * pairs.displacements
        points += xp.stack([bincount(xp, first, sizes.size, row) for row in pushes])
    else:
        if sizes.size:
            raise ParkiValueError(
                f"{sizes.size} spheres, which take {volume:.3g} of the box, still overlap after "
                f"{STEPS} steps; give smaller radii, a smaller gap, or a larger box"
            )
    periods = xp.floor(xp.asarray(np.linalg.inv(vectors.T)) @ points)
    return points - xp.asarray(np.where(free, 0.0, vectors).T) @ periods
