"""Rigid bodies by dense matrices."""

from __future__ import annotations

import numpy as np
from contract import matrix_of
from scipy.spatial.transform import Rotation

import parki
from parki.dynamics import shapes


def dense(of):
    """Return M, K and R of bodies as matrices, by the blobs' spheres and by cross products.

    Rows of K are a component after the other, its columns as of the linear operator.
    """
    radii = np.concatenate([of.shapes[k].radii for k in of.which])
    if not any(of.options.periodic) and not of.options.walled:
        mobility = shapes.free_space(of.blobs, radii) / of.viscosity  # which has its own test
    else:
        spheres = parki.Spheres(of.blobs, radii, of.options, viscosity=of.viscosity)
        mobility = matrix_of(spheres.as_linear_operator())
    count, body = (
        of.which.size,
        np.repeat(np.arange(of.which.size), [of.shapes[k].n for k in of.which]),
    )
    carried = np.zeros((3, radii.size, 2, 3, count))
    resisted = np.zeros((2, 3, count, 2, 3, count))
    arms = of.blobs - of.positions[:, body]
    for blob, b in enumerate(body):
        carried[:, blob, 0, :, b] = np.eye(3)
        carried[:, blob, 1, :, b] = np.cross(np.eye(3), arms[:, blob]).T
    for b, k in enumerate(of.which):
        if not of.shapes[k].blobs[:2].any():  # a rod
            axis = Rotation.from_quat(of.quaternions[:, b]).apply([0, 0, 1])
            drag = 8 * np.pi * of.viscosity * np.sum(of.shapes[k].radii ** 3)
            resisted[1, :, b, 1, :, b] = drag * np.outer(axis, axis)
    size = 6 * count
    return mobility, carried.reshape(-1, size), resisted.reshape(size, size)


def flat(*arrays):
    return np.stack(arrays).ravel()
