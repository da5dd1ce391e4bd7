"""Charges of ASE's atoms: energy, forces and stress by `parki.energy`, in any cell.

    python examples/ase_calculator.py

The calculator takes the charges of the atoms, the periodic axes of ``atoms.pbc``, and any cell: it
turns the periodic vectors into parki's axes, and forces and stress back. It prints the energy of
rock salt, its forces and stress beside differences of energies, and the energy of a slab in two
orientations. Install ASE by ``pip install ase``.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from ase.build import bulk
from ase.calculators.calculator import Calculator, all_changes
from ase.calculators.fd import calculate_numerical_forces, calculate_numerical_stress
from ase.stress import full_3x3_to_voigt_6_stress

import parki

UNIT = 14.399645  # 1 / (4 pi eps_0) in eV angstrom per squared elementary charge


class Coulomb(Calculator):
    """The electrostatic energy of ``atoms.get_initial_charges()``, in eV.

    Parameters
    ----------
    tolerance : float
        As of `parki.EwaldOptions`.
    """

    implemented_properties = ("energy", "free_energy", "forces", "stress", "charges")

    def __init__(self, tolerance: float = 1e-6, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.tolerance = tolerance

    def calculate(
        self, atoms: Any = None, properties: Any = ("energy",), system_changes: Any = all_changes
    ) -> None:
        """Fill in the results."""
        super().calculate(atoms, properties, system_changes)
        periodic = self.atoms.pbc
        count = int(periodic.sum())
        # The columns of ``axes`` are parki's axes, of which the periodic ones come first.
        axes, edges = np.linalg.qr(self.atoms.cell[periodic].T, mode="complete")
        signs = np.where(np.diag(edges) < 0, -1.0, 1.0)
        axes[:, :count] *= signs
        points = self.atoms.positions @ axes
        points[:, count:] -= points[:, count:].min(axis=0)  # nothing depends on where it lies
        box: Any = [None, None, None]
        if count == 1:
            box[0] = abs(edges[0, 0])
        elif count > 1:
            box = np.eye(3) * (points.max() + 1)
            box[:count, :count] = (edges[:count].T * signs)[:, :count]
        charges = self.atoms.get_initial_charges()
        how = {"rows": True, "periodicity": count, "box": box, "tolerance": self.tolerance}
        found = parki.energy(points, charges, **how)
        self.results = {
            "energy": UNIT * found.energy,
            "free_energy": UNIT * found.energy,
            "forces": UNIT * found.forces @ axes.T,
            "charges": charges,
        }
        if count == 3:
            stress = -UNIT * axes @ found.virial @ axes.T / self.atoms.get_volume()
            self.results["stress"] = full_3x3_to_voigt_6_stress(stress)


def main() -> tuple[float, ...]:
    """Print Madelung's constant, and what forces, stress and a slab are off by; return them."""
    salt = bulk("NaCl", "rocksalt", a=5.64)
    salt.set_initial_charges([1, -1])
    salt.calc = Coulomb(1e-9)
    madelung = -salt.get_potential_energy() * 2.82 / UNIT
    print(f"rock salt: {salt.get_potential_energy():.5f} eV, Madelung's constant {madelung:.6f}")
    salt = salt * (2, 2, 2)  # its vectors are at 60 degrees
    salt.set_cell(salt.cell @ (np.eye(3) + 0.03 * np.arange(9).reshape(3, 3)), scale_atoms=True)
    salt.rattle(0.1, seed=1)
    salt.calc = Coulomb(1e-9)
    forces = abs(salt.get_forces() - calculate_numerical_forces(salt, 1e-3)).max()
    stress = abs(salt.get_stress() - calculate_numerical_stress(salt, 1e-4)).max()
    print(f"off from differences: forces {forces:.1e} eV/A, stress {stress:.1e} eV/A^3")
    slab = salt.copy()
    slab.pbc = True, False, True
    slab.calc = Coulomb(1e-9)
    before, pushed = slab.get_potential_energy(), slab.get_forces()
    slab.rotate(35, (1, 2, 3), rotate_cell=True)
    after = slab.get_potential_energy()
    sizes = abs(np.linalg.norm(slab.get_forces(), axis=1) - np.linalg.norm(pushed, axis=1)).max()
    print(f"a slab turned: energy off by {abs(after - before):.1e} eV, forces by {sizes:.1e} eV/A")
    return madelung, forces, stress, abs(after - before), sizes


if __name__ == "__main__":
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    main()
