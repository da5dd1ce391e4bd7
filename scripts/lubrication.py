"""Make `parki/dynamics/lubrication.npy` from scratch: the table of `parki.dynamics.tables`.

It takes some minutes on one core. With a path, write to it instead.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from parki.dynamics import tables
from parki.dynamics.tables import SCALARS, singular
from parki.reference.rigid_spheres import in_basis, moment_mobility, resistance

RATIOS, NEAR_GAPS, FAR_GAPS = 14, 11, 18
SMALLEST_GAP = 6e-3  # of the fit; what is left below it falls with the gap


def difference(ratio: float, gap: float, digits: float) -> Any:
    """Return the numbers of a pair of radii 1 and ``ratio``, shape (scalars,)."""
    r = (1 + ratio) * (1 + gap / 2)
    points = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, r]])
    own = np.linalg.inv(moment_mobility(points, [1.0, ratio]))
    found = {
        m: exact - in_basis(m).T @ own @ in_basis(m)
        for m, exact in resistance(1.0, ratio, r, digits).items()
    }
    return np.array([found[m][i, j] for m, i, j in SCALARS])


def of_ratio(ratio: float) -> Any:
    """Return the coefficients by gap, shape (by gap, scalars)."""
    gaps = np.geomspace(SMALLEST_GAP, tables.NEAR, NEAR_GAPS)
    values = np.array([difference(ratio, gap, 9) for gap in gaps])
    log = -np.log(gaps)
    values -= np.einsum(
        "kn,ks->ns", [1 / gaps, log, gaps * log], singular(np.array([ratio]))[..., 0]
    )
    near = np.linalg.lstsq(tables.near_basis(gaps).T, values, rcond=None)[0]
    x = np.cos(np.pi * (np.arange(FAR_GAPS) + 0.5) / FAR_GAPS)
    gaps = tables.NEAR * (tables.FAR / tables.NEAR) ** ((x + 1) / 2)
    values = np.array([difference(ratio, gap, 11) for gap in gaps])
    far = np.polynomial.chebyshev.chebfit(x, values, FAR_GAPS - 1)
    return np.concatenate([near, far]) / ratio**tables.OF_SECOND


def table() -> Any:
    """Return the numbers of the file."""
    x = np.cos(np.pi * (np.arange(RATIOS) + 0.5) / RATIOS)
    ratios = tables.SMALLEST_RATIO ** ((1 - x) / 2)
    values = []
    for ratio in ratios:
        print(f"ratio {ratio:.3f}", file=sys.stderr, flush=True)
        values.append(of_ratio(float(ratio)))
    flat = np.array(values).reshape(RATIOS, -1)
    fitted = np.polynomial.chebyshev.chebfit(x, flat, RATIOS - 1)
    return fitted.reshape(RATIOS, -1, len(SCALARS))


if __name__ == "__main__":
    np.save(sys.argv[1] if sys.argv[1:] else tables.FILE, table())
