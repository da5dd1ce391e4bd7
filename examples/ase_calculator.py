"""Charges of ASE's atoms: rock salt whose cell relaxes, by `parki.ase.Coulomb`.

    python examples/ase_calculator.py

Repulsion comes from ASE's Lennard-Jones potential, which acts on next neighbours here: the distance
at which both balance is the root of one function. Install ASE by ``pip install ase``.
"""

import argparse

from ase.build import bulk
from ase.calculators.lj import LennardJones
from ase.calculators.mixing import SumCalculator
from ase.filters import FrechetCellFilter
from ase.optimize import BFGS

from parki.ase import Coulomb


def main() -> float:
    """Relax positions and cell; return the distance of neighbours."""
    salt = bulk("NaCl", "rocksalt", a=5.2)
    repulsion = LennardJones(sigma=2.4, epsilon=0.1, rc=3.2)
    salt.calc = SumCalculator([Coulomb([1, -1], tolerance=1e-8), repulsion])
    BFGS(FrechetCellFilter(salt), logfile=None).run(fmax=1e-4)
    distance = float(salt.cell.lengths()[0] / 2**0.5)
    print(f"{salt.get_potential_energy():.5f} eV, neighbours at {distance:.4f} angstrom")
    return distance


if __name__ == "__main__":
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    main()
