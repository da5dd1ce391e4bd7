"""`Coulomb`: energy, forces and stress of charges, as a calculator of ASE.

It turns the periodic vectors of a cell into parki's axes, calls `parki.energy`, and turns forces
and stress back. ``import parki`` does not import this module, which needs ASE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parki.errors import (
    MissingPackageError,
    ParkiError,
    ParkiTypeError,
    ParkiValueError,
    by_words,
)
from parki.ewald.derivatives.energies import energy
from parki.ewald.options import EwaldOptions
from parki.interchange import to_host
from parki.runtime import get_execution_space
from parki.typing import OptionKeywords, Unpack

try:
    from ase import Atoms
    from ase.calculators.calculator import Calculator, PropertyNotImplementedError, all_changes
    from ase.stress import full_3x3_to_voigt_6_stress
    from ase.units import Bohr, Hartree
except ImportError as error:
    raise MissingPackageError("parki.ase needs ASE, which pip install ase brings") from error

__all__ = ["Coulomb", "NoStressError"]

Array = NDArray[np.float64]
UNIT = Hartree * Bohr  # 1 / (4 pi eps_0) in eV angstrom, for elementary charges
FLAT = 1e-8  # height of a vector over the others, over its length
# Lengths along free axes are the extent of the atoms and this part more. They stay while the atoms
# fit, and until they are twice too long: steps in one box take the plan of the step before.
SPARE = 0.25
LEAST = 1.0  # angstrom


class NoStressError(ParkiError, PropertyNotImplementedError):
    """A stress was asked for, but the cell has no volume."""


class Coulomb(Calculator):
    """The electrostatic energy of atoms with charges, in eV, with any of the axes periodic.

    Axes and box are the ones of ``atoms.pbc`` and ``atoms.cell``. A slab, a wire or a molecule
    needs no vector along its free axes, which are free without a vacuum and without a correction.
    Energy and forces have the gauge of ``docs/gauges.md``: with three periodic axes a uniform
    background neutralises a net charge. Forces and stress are those at fixed charges. The stress
    needs a cell with a volume, and is over the whole volume for slabs and wires, too.

    Parameters
    ----------
    charges : array_like of shape (N,), or callable, optional
        In elementary charges, or a function of the atoms that returns them. Default: the initial
        charges of the atoms.
    kappa : float, optional
        Inverse of a screening length, in 1/angstrom: pairs have ``exp(-kappa r) / r``.
    epsilon : float, or array_like of shape (N,)
        Width of Gaussian charges in angstrom, of all or of each, as of `parki.energy`.
    exclude : array_like of shape (N,), optional
        Labels of the atoms; pairs of equal labels, such as those of a molecule, are left out.
    **keywords
        The fields of `parki.EwaldOptions` except axes, box and walls: ``tolerance``, which bounds
        the error of the potentials, ``execution_space`` and others.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an option is impossible; later, if the atoms have no charges, periodic axes without
        vectors, or vectors that are in a plane.

    Examples
    --------
    >>> from ase.build import bulk
    >>> from parki.ase import Coulomb
    >>> salt = bulk("NaCl", "rocksalt", a=5.64)
    >>> salt.calc = Coulomb([1, -1])
    >>> round(salt.get_potential_energy(), 4)
    -8.9235
    """

    implemented_properties = ["energy", "free_energy", "forces", "stress", "charges"]  # noqa: RUF012

    def __init__(
        self,
        charges: ArrayLike | Callable[[Atoms], ArrayLike] | None = None,
        *,
        kappa: float | None = None,
        epsilon: ArrayLike = 0.0,
        exclude: ArrayLike | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        super().__init__()
        for name in ("periodicity", "box"):
            if name in keywords:
                raise ParkiTypeError(
                    f"{name} is given, but a calculator takes it from atoms.pbc and atoms.cell; "
                    "leave it out"
                )
        for name in ("wall", "voltage", "mean_flow"):
            if keywords.get(name) is not None:
                raise ParkiTypeError(
                    f"{name} is given, but a calculator has no walls; leave it out, or take "
                    "parki.energy, which has walls of metal and of dielectrics"
                )
        self.charges = charges if callable(charges) or charges is None else _numbers(charges)
        self.kappa = kappa
        several = np.ndim(epsilon) > 0
        self.epsilon: Any = np.array(epsilon, dtype=np.float64) if several else epsilon
        self.exclude = None if exclude is None else np.array(exclude)
        keywords["periodicity"], keywords["box"] = 3, [1.0, 1.0, 1.0]  # replaced in each call
        self.options = EwaldOptions(**keywords)
        self._lengths = np.zeros(0)
        self._strained = False
        self._potentials = np.zeros(0)

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = all_changes,
    ) -> None:
        """Fill in the results."""
        super().calculate(atoms, properties, system_changes)
        copied: Any = self.atoms
        charges = self._charges(copied)
        axes, vectors = _frame(copied)
        points = copied.positions @ axes
        box = self._box(points, vectors)
        # A time loop in which stresses are asked for has them with the forces.
        self._strained = self._strained or "stress" in properties
        volume = copied.cell.volume
        if "stress" in properties and not volume:
            raise NoStressError(
                "a stress is over the volume of the cell, which is zero; give atoms.cell a vector "
                "along each axis, also along free ones"
            )
        xp = get_execution_space(self.options.execution_space).array_module
        with by_words({"points": "positions"}):
            energies = energy(
                xp.asarray(points),
                xp.asarray(charges),
                replace(self.options, periodicity=len(vectors), box=box),
                rows=True,
                kappa=self.kappa,
                epsilon=xp.asarray(self.epsilon) if np.ndim(self.epsilon) else self.epsilon,
                exclude=None if self.exclude is None else xp.asarray(self.exclude),
                virial=self._strained,
            )
        self._potentials = UNIT * to_host(energies.potentials)
        self.results = {
            "energy": UNIT * energies.energy,
            "free_energy": UNIT * energies.energy,
            "forces": UNIT * to_host(energies.forces) @ axes.T,
            "charges": charges,
        }
        if energies.virial is not None and volume:
            virial, count = energies.virial.copy(), len(vectors)
            # Moments along periodic axes depend on images; no torque acts on atoms and cell.
            virial[count:, :count] = virial[:count, count:].T
            stress = -UNIT / volume * axes @ virial @ axes.T
            self.results["stress"] = full_3x3_to_voigt_6_stress(stress)

    def get_potentials(self, atoms: Atoms | None = None) -> Array:
        """Return the potential at each atom in volt, shape (N,): derivatives by the charges."""
        self.get_property("energy", atoms)
        return self._potentials.copy()

    def _charges(self, atoms: Atoms) -> Array:
        """Return the charges of the atoms, or refuse them."""
        if self.charges is None:
            if not atoms.has("initial_charges"):
                raise ParkiValueError(
                    "the atoms have no charges; call atoms.set_initial_charges, or pass charges to "
                    "the calculator"
                )
            charges = atoms.get_initial_charges()
        else:
            charges = _numbers(self.charges(atoms)) if callable(self.charges) else self.charges
        if charges.shape != (len(atoms),):
            raise ParkiValueError(
                f"charges has shape {charges.shape}; expected ({len(atoms)},), a number for each "
                "atom"
            )
        return charges

    def _box(self, points: Array, vectors: Array) -> list[Any]:
        """Return the box of points, which are moved into it along free axes."""
        count = len(vectors)
        free = points[:, count:]
        extent = np.ptp(free, axis=0) if len(free) else np.zeros(3 - count)
        # A plane or a line of atoms has a field that decays over a period.
        least = max(
            [0.25 * vectors.diagonal().min() if count else LEAST, 1e-3 * extent.max(initial=0.0)]
        )
        wanted = np.maximum((1 + SPARE) * extent, least)
        last = self._lengths
        if last.shape != wanted.shape or (extent > last).any() or (last > 2 * wanted).any():
            self._lengths = wanted
        if len(free):
            free += 0.5 * (self._lengths - free.min(axis=0) - free.max(axis=0))
        if count < 2:
            return [*vectors.diagonal().tolist(), *self._lengths.tolist()]
        box = np.zeros((3, 3))
        box[:count, :count] = vectors
        box[range(count, 3), range(count, 3)] = self._lengths
        return box.tolist()


def _numbers(charges: Any) -> Array:
    """Return charges as an array of their own, or refuse them."""
    try:
        return np.array(charges, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParkiTypeError(
            f"charges is a {type(charges).__name__}; expected a number for each atom, or a "
            "function of the atoms that returns them"
        ) from error


def _frame(atoms: Atoms) -> tuple[Array, Array]:
    """Return the axes of the solver as columns, periodic ones first, and the vectors along them.

    The vectors, shape (count, count), have a positive diagonal and nothing above it. A left-handed
    cell has axes that are reflected.
    """
    periodic = np.flatnonzero(atoms.pbc)
    cell = atoms.cell.array[periodic]
    if not np.isfinite(cell).all():
        raise ParkiValueError("atoms.cell contains NaN or infinity")
    lengths = np.linalg.norm(cell, axis=1)
    if (missing := periodic[lengths == 0]).size:
        raise ParkiValueError(
            f"atoms.pbc is {atoms.pbc.tolist()}, but atoms.cell has no vector {missing[0]}; set "
            "it, or set atoms.pbc to False there"
        )
    axes, edges = np.linalg.qr(cell.T, mode="complete")
    edges = edges[: len(periodic)]
    if (abs(edges.diagonal()) < FLAT * lengths).any():
        raise ParkiValueError(
            f"atoms.cell is flat: its periodic vectors {cell.tolist()} are in a plane or on a "
            "line; correct them, or set atoms.pbc to False along one"
        )
    signs = np.where(edges.diagonal() < 0, -1.0, 1.0)
    axes[:, : len(periodic)] *= signs
    return axes, edges.T * signs
