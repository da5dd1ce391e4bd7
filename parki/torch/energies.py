"""`energy`: the energy of charges as a function of tensors."""

from __future__ import annotations

from typing import Any

import torch

from parki import torch as of_tensors
from parki.core import EwaldOptions, energy_of_sums
from parki.torch import constants
from parki.typing import Boxes, OfPoints, OptionKeywords, Periodicities, Unpack


def energy(
    points: torch.Tensor,
    charges: torch.Tensor,
    options: EwaldOptions | None = None,
    *,
    rows: bool | None = None,
    kappa: float | None = None,
    epsilon: float | torch.Tensor = 0.0,
    systems: OfPoints | None = None,
    boxes: Boxes | None = None,
    periodicities: Periodicities | None = None,
    **keywords: Unpack[OptionKeywords],
) -> torch.Tensor:
    """Return the energy of charges, with derivatives by positions, charges and box.

    This is the energy of `parki.energy` for tensors, made of the sums of this module. Forces are
    minus its derivative by the points, and stress is its derivative by a strain of points and box,
    over the volume: see the examples.

    Parameters
    ----------
    points : Tensor, shape (N, 3) or (3, N), float32 or float64
    charges : Tensor, shape (N,)
    options, rows, kappa, systems, periodicities, **keywords
        As for `parki.energy`. They are constants, except that ``box`` may be a tensor.
    epsilon : float, or Tensor of shape (N,)
        Width of Gaussian charges, one for all, or of each with derivatives by it.
    boxes : optional
        The box of each system; a tensor of them has first derivatives.

    Returns
    -------
    Tensor, shape () or (S,)
        ``1/2 sum q phi``, or a number for each system, in the dtype of the points.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, and where derivatives are asked for that parki does not have.

    Examples
    --------
    Rock salt, its forces, and its stress:

    >>> import parki.torch, torch
    >>> cell = torch.cartesian_prod(*[torch.arange(2.0, dtype=torch.float64)] * 3)
    >>> charges = (-1) ** cell.sum(dim=1)
    >>> points = (cell + 0.25).requires_grad_()
    >>> strain = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    >>> deformed = torch.eye(3) + strain
    >>> box = 2 * deformed.T
    >>> energy = parki.torch.energy(
    ...     points @ deformed.T, charges, periodicity=3, box=box, tolerance=1e-6
    ... )
    >>> round(energy.item() / 4, 4)
    -1.7476
    >>> slope, by_strain = torch.autograd.grad(energy, (points, strain))
    >>> forces, stress = -slope, by_strain / torch.linalg.det(box)
    >>> round(stress.trace().item() * 8 / energy.item(), 4)  # the energy is as 1 / length
    -1.0
    """
    of_tensors.check_tensor("points", points)
    of_tensors.check_tensor("charges", charges)
    return energy_of_sums(
        _product,
        points,
        charges,
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
    parameters: dict[str, Any],
    points: torch.Tensor,
    charges: torch.Tensor,
    *,
    systems: OfPoints | None,
    **keywords: Any,
) -> torch.Tensor:
    """Return half the product of charges and their potentials, or one for each system."""
    of_each_width = isinstance(parameters.get("epsilon"), tuple)
    if systems is None and not of_each_width:
        kernel = constants.named(name, **parameters) if parameters else name
        total: torch.Tensor = of_tensors.product(kernel, points, charges, **keywords)
        return total
    sums = getattr(of_tensors, name)
    potentials = sums(points, points, charges, systems=systems, **parameters, **keywords)
    energies = 0.5 * charges * potentials
    if systems is None:
        return energies.sum()
    owners, count = constants.owners(systems=systems)
    totals = torch.zeros(count, dtype=torch.float64, device=energies.device)
    return totals.index_add(0, owners.to(energies.device), energies.to(totals.dtype)).to(
        energies.dtype
    )
