"""What programs that solve for surfaces and bodies need around a plan.

pairs        `near_pairs`: sources near targets, for local corrections as sparse matrices
equilibrium  `equilibrate`: charges and dipoles that respond, where their energy is least
packing      `hard_spheres`: spheres at random that do not overlap
display      `Progress`: iterations, residual and time left on a terminal
rotations    quaternions of bodies
"""

from parki.solving.display import Progress
from parki.solving.equilibrium import Equilibrium, equilibrate
from parki.solving.packing import hard_spheres
from parki.solving.pairs import NearPairs, near_pairs

__all__ = ["Equilibrium", "NearPairs", "Progress", "equilibrate", "hard_spheres", "near_pairs"]
