"""What to expect where bodies are close to each other: measured by `scripts/surfaces.py gaps`.

Two spheres that forces push together. The correction of close pairs is as good as elsewhere, but
the density varies within the gap faster than nodes can tell.
"""

from __future__ import annotations

import numpy as np

# The smallest distance of a node from the other sphere, in node distances, and the largest error
# of velocities, relative to a sphere alone: on three times finer nodes for orders 6, 9 and 13, and
# on nodes alone for 9 and 13.
GAPS = (2.0, 1.04, 0.54, 0.29, 0.14, 0.09)
FINER = (4e-6, 2e-4, 3e-3, 1.5e-2, 4.3e-2, 6.2e-2)
ALONE = (2.2e-3, 7e-3, 1.7e-2, 2.2e-2, 0.16, 0.16)
WORTH = 2e-3  # an error that a warning is worth


def expected(gap: float, finer: bool) -> float:
    """Return the error to expect at a gap in node distances, between the rows of the table."""
    rows = np.log(FINER if finer else ALONE)
    at = np.interp(np.log(max(gap, 1e-3)), np.log(GAPS[::-1]), rows[::-1])
    return 0.0 if gap > GAPS[0] else float(np.exp(at))
