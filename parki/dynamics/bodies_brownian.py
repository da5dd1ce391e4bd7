"""What shakes rigid bodies: velocities of their blobs and loads, whose solution is noise or drift.

The blobs have noise of their mobility M, and a torque that resists a turn has its own. Then motions
have the covariance of the bodies' mobility N, because ``N = (K^T M^-1 K + R)^-1``, in the words of
`conjugate`. The drift is ``div N``, of translations and turns. It takes derivatives of M, K and R,
none of N: Sprinkle, Balboa Usabiaga, Patankar and Donev (2017).
"""

from __future__ import annotations

from typing import Any

from parki.dynamics import bodies_solver
from parki.errors import by_words
from parki.suspensions import noise, wall

LOOSER = 10.0  # times the accuracy: the error of the solve that only the drift takes


def shaken(bodies: Any, rng: Any, size: float) -> tuple[Any, Any]:
    """Return ``size`` times velocities (3, N) of blobs, and loads (2, 3, B)."""
    with by_words(bodies.words):
        flow = bodies._spheres.noise(rng, accuracy=bodies.accuracy)
    placed = bodies._placed
    real = placed.dtype.type
    white = noise.white(rng, placed.dtype)((2, *placed.positions.shape))
    return real(size) * flow, real(size) * placed.resisted(white, 0.5)


def drift(bodies: Any, white: noise.White, size: float) -> tuple[Any, Any]:
    """Return ``size`` times velocities and loads whose solution has the mean div N.

    With normal numbers w it is the mean of the change of N w along w. M changes by a difference, K
    and R by formulas.
    """
    placed = bodies._placed
    real = placed.dtype.type
    extent, blob = bodies.extent, bodies._spheres._sizes.smallest
    w = white((2, *placed.positions.shape))
    # A turn moves blobs about as far as a translation: both are in units of the extent.
    loads, moves = w.copy(), w.copy()
    loads[0] /= real(extent)
    moves[0] *= real(extent)
    solution = bodies_solver.solved(
        bodies, loads, None, accuracy=min(LOOSER * bodies.accuracy, 0.5)
    )
    step = real(wall.STEP * blob / extent)
    [change] = wall.difference(bodies._spheres, step * placed.carried(moves), solution.acts)
    arms = placed.turning(w[1])  # by which these change
    flow = placed.turning(solution.moves[1], arms) - change / step
    pull = -placed.resisted_by(w[1], solution.moves)
    pull[1] -= placed.torques(solution.acts, arms)
    return real(size) * flow, real(size) * pull
