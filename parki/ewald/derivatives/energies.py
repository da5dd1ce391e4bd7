"""`energy`: the energy of charges, with forces, virial and potentials, from one derivative."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.derivatives.vjp import vjp
from parki.ewald.geometry.systems import first_box
from parki.ewald.options import EwaldOptions
from parki.ewald.points import take_options
from parki.ewald.sums import kernel
from parki.interchange import as_array, as_given, to_host
from parki.memory import telling
from parki.typing import Array, OptionKeywords, Unpack


class Energy(NamedTuple):
    """What `energy` returns; forces and potentials are in the library of the points.

    Attributes
    ----------
    energy : float, or ndarray of shape (S,)
        ``1/2 sum q phi``, and of each system if there are several.
    forces : array, in the shape of the points
        Minus the derivative by the points.
    virial : ndarray, shape (3, 3), or None
        Minus the derivative by a strain e of points and box together, dx = e x. The stress is
        ``-virial`` over the volume. None for several systems.
    potentials : array, shape (N,)
        ``phi``, the derivative of the energy by the charges.
    """

    energy: Any
    forces: Any
    virial: Any
    potentials: Any


@telling
def energy(
    points: Array,
    charges: Array,
    options: EwaldOptions | None = None,
    *,
    kappa: float | None = None,
    exclude: Any = None,
    systems: Any = None,
    boxes: Any = None,
    **keywords: Unpack[OptionKeywords],
) -> Energy:
    """Return the energy of charges, their forces, the virial, and the potentials.

    The energy is half the sum of ``q_i q_j / r_ij`` over all pairs of a charge and another one or
    an image, in the gauge of `laplace`: with three periodic axes a uniform background neutralises
    a net charge. With ``kappa`` pairs have ``exp(-kappa r) / r``, and no background. Multiply all
    by 1 / (4 pi eps_0) in your units, such as 14.399645 eV angstrom for elementary charges.

    Parameters
    ----------
    points : array, shape (N, 3) or (3, N)
        Positions. Three points have to be (3, N).
    charges : array, shape (N,)
    options : EwaldOptions, optional
    kappa : float, optional
        Inverse of the screening length, in the unit of the box.
    exclude, systems, boxes
        As for `laplace`.
    **keywords
        The fields of `EwaldOptions`, instead of ``options``.

    Returns
    -------
    Energy
        Named tuple of energy, forces, virial and potentials.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible; before any work.

    Examples
    --------
    Rock salt, whose energy is -1.7476 for each pair of ions in units of their distance:

    >>> import numpy as np, parki
    >>> cell = np.indices((2, 2, 2)).reshape(3, 8).T
    >>> charges = (-1.0) ** cell.sum(axis=1)
    >>> found = parki.energy(cell + 0.25, charges, periodicity=3, box=[2, 2, 2], tolerance=1e-9)
    >>> round(found.energy / 4, 6)
    -1.747565
    """
    _, options = take_options(None, options, keywords, box=first_box(boxes))
    if options.walled:
        raise ParkiValueError(f"wall is {options.wall!r}, but energies are those of boxes without")
    given, q = as_array("points", points), as_array("charges", charges)
    rows = given.ndim == 2 and given.shape[1] == 3 and given.shape[0] != 3
    x = given.T.copy() if rows else given
    name: Any = "laplace" if kappa is None else kernel("yukawa", kappa=kappa)
    by_box = systems is None and any(options.periodic)
    # With charges as weights, the derivative by the density is the potential. The derivatives by
    # the points as targets and as sources are equal, and half of each is the energy's.
    found: Any = vjp(
        name,
        *(x, x, q),
        options=options,
        values=q,
        wrt=("dens", "src", "lattice") if by_box else ("dens", "src"),
        exclude=exclude,
        systems=systems,
        boxes=boxes,
    )
    potentials, slopes = found["dens"], found["src"]
    total: Any
    each, virial = to_host(0.5 * q * potentials).astype(np.float64), None
    if systems is None:
        total, virial = float(each.sum()), to_host(-(slopes @ x.T))
        if by_box:
            virial = virial - 0.5 * to_host(found["lattice"]).T @ _lattice(options)
    else:
        total = np.array([each[a:b].sum() for a, b in pairwise(map(int, systems))])
    forces = -slopes.T if rows else -slopes
    return Energy(total, as_given(forces, points), virial, as_given(potentials, points))


def _lattice(options: EwaldOptions) -> Any:
    """Return the lattice vectors as rows; free axes without a length have none."""
    if options.cell is not None:
        return np.array(options.box)
    return np.diag([edge or 0.0 for edge in options.edges])
