"""Charges near and between plates: walls, boxes and random points."""

from __future__ import annotations

import parki

METAL = ("metal", "metal")
BOX = (1.0, 1.2, 0.7)
VALUE = parki.ParkiValueError
WALLS = {
    "metal": (-1,),
    METAL: (-1, -1),
    0.6: (0.6,),
    (0.6, -0.4): (0.6, -0.4),
    (0.95, 0.95): (0.95, 0.95),
    ("metal", 0.5): (-1, 0.5),
    (0.5, "metal"): (0.5, -1),
}


def options(wall=METAL, box=BOX, tolerance=1e-6, **more):
    return parki.EwaldOptions(more.pop("periodicity", 2), box, tolerance, wall=wall, **more)
