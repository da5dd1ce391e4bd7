"""The mobility of spheres by closed forms, over 1 / (8 pi viscosity), for a few of them.

Rotne, Prager, Yamakawa; Zuk, Wajnryb, Mizerski, Szymczak (2014). Periodic ones are sums of points
with their Laplacians, and what the pairs that overlap change.
"""

import itertools

import numpy as np

from parki.reference import direct_sum


def far(r, a, b):
    """Return the coefficients m, l of a force, c of a force or torque, n, o of a torque."""
    s = a * a + b * b
    return (1 + s / (3 * r**2)) / r, (1 - s / r**2) / r, 1 / r**3, -0.5 / r**3, 1.5 / r**3


def closed(r, a, b):
    """Return the same at any distance r > 0; a turns and b moves."""
    if r > a + b:
        return far(r, a, b)
    if r <= abs(a - b):
        most = max(a, b)
        return 4 / (3 * most), 0.0, (1 / a**3 if b < a else 0.0), 1 / most**3, 0.0
    s, d, q = a * a + b * b, (a - b) ** 2, a * a + 4 * a * b + b * b
    m = (16 * r**3 * (a + b) - (d + 3 * r**2) ** 2) / (24 * a * b * r**3)
    c = (a - b + r) ** 2 * (b * b + 2 * b * (a + r) - 3 * (a - r) ** 2) / (16 * a**3 * b * r**3)
    n = 5 * r**6 - 27 * r**4 * s + 32 * r**3 * (a**3 + b**3) - 9 * r * r * (a * a - b * b) ** 2
    n = (n - d * d * q) / (64 * a**3 * b**3 * r**3)
    o = 3 * (d - r * r) ** 2 * (q - r * r) / (64 * a**3 * b**3 * r**3)
    return m, (d - r * r) ** 2 / (8 * a * b * r**3), c, n, o


def mobility(points, radii, forces, torques, box, periodicity):
    """Return velocities and turns of spheres of these radii."""
    n, kwargs = points.shape[1], {"box": box, "periodicity": periodicity}
    velocities, turns = np.zeros((2, 3, n))

    def total(kernel, dens, want="u"):
        return direct_sum(kernel, points, points, dens, want=want, **kwargs)

    def laplacian(dens):
        """Half the Laplacian of the flow of forces, from the pressure of dipoles."""
        found = np.empty((3, n))
        for i in range(3):
            dipoles = np.zeros((3, 3, n))
            dipoles[:, i] = dens
            found[i] = -total("stokes_dipole", dipoles, "p")
        if periodicity == 3:
            found += 8 * np.pi / np.prod(box) * dens.sum(axis=1, keepdims=True)
        return found

    def half_curl(slopes):
        return (
            np.array(
                [
                    slopes[(i + 2) % 3, (i + 1) % 3] - slopes[(i + 1) % 3, (i + 2) % 3]
                    for i in range(3)
                ]
            )
            / 2
        )

    velocities += total("stokes_sl", forces) + total("stokes_rotlet", torques)
    velocities += radii**2 / 6 * laplacian(forces) + laplacian(radii**2 / 6 * forces)
    turns += half_curl(total("stokes_sl", forces, "grad_u"))
    turns += half_curl(total("stokes_rotlet", torques, "grad_u"))

    images = [range(-3, 4) if axis < periodicity else (0,) for axis in range(3)]
    for shift in itertools.product(*images):
        r = points[:, :, None] - points[:, None] - (np.array(shift) * box)[:, None, None]
        distance = np.sqrt((r**2).sum(axis=0))
        for i, j in zip(*np.nonzero(distance <= radii[:, None] + radii), strict=True):
            a, b, f, t = radii[i], radii[j], forces[:, j], torques[:, j]
            if distance[i, j] == 0:
                if max(a, b):
                    velocities[:, i] += 4 / (3 * max(a, b)) * f
                    turns[:, i] += t / max(a, b) ** 3
                continue
            e = r[:, i, j] / distance[i, j]
            turning, moving = (
                np.subtract(closed(distance[i, j], *own), far(distance[i, j], *own))
                for own in ((a, b), (b, a))
            )
            m, of_e, c, n_, o = turning
            velocities[:, i] += m * f + of_e * e * (e @ f) + moving[2] * np.cross(t, r[:, i, j])
            turns[:, i] += n_ * t + o * e * (e @ t) + c * np.cross(f, r[:, i, j])
    return velocities, turns
