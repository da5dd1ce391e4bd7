"""What programs that solve integral equations need around a plan.

pairs      `near_pairs`: sources near targets, for local corrections as sparse matrices
display    `Progress`: iterations, residual and time left on a terminal
"""

from parki.solving.display import Progress
from parki.solving.pairs import NearPairs, near_pairs

__all__ = ["NearPairs", "Progress", "near_pairs"]
