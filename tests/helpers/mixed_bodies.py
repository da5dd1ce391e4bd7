"""Four bodies of three shapes, for tests of their solves and steps."""

import numpy as np
from scipy.spatial.transform import Rotation

import parki

BOX = [1.2, 1.0, 0.8]
BALL = parki.BodyShape.sphere(0.12, 12)
ROD = parki.BodyShape.rod(0.3, 0.03, 6)
CORNER = parki.BodyShape.boomerang(0.2, 0.04, blobs=4)
MIXED = {"shapes": [BALL, ROD, CORNER], "which": [0, 1, 2, 1]}
PLACES = np.array([[0.2, 0.7, 0.3, 0.9], [0.2, 0.5, 0.7, 0.8], [0.3, 0.25, 0.5, 0.45]])
TURNS = Rotation.random(4, random_state=1)
RNG = np.random.default_rng(0)
FORCES, TORQUES, VELOCITIES, SPINS = RNG.standard_normal((4, 3, 4))
TORQUES *= 0.1


def bodies(periodicity=3, tolerance=1e-7, turns=TURNS, **more):
    free = {"wall": "no-slip"} if periodicity == "wall" else {}
    periodicity = 2 if free else periodicity
    given = {"periodicity": periodicity, "box": BOX, "tolerance": tolerance, **free, **more}
    given = {"positions": PLACES} | given
    return parki.RigidBodies(**MIXED, quaternions=turns, **given)
