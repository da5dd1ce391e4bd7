"""The promise of the tolerance, and the clouds of points that it is tested on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

KERNELS = ("laplace", "stokes_sl", "stokes_dl", "stokes_comb")
TOLERANCES = {"f8": (1e-3, 1e-6, 1e-9, 1e-12), "f4": (1e-2, 1e-4, 1e-5)}
BOXES = {"cube": (1.0, 1.0, 1.0), "slab": (1.5, 1.0, 0.5), "long": (4.0, 1.0, 1.0)}
# Rounding may add this many times the unit roundoff of the rms of the potential.
ROUNDING = 32


class Cloud(NamedTuple):
    """Points, and a density and normals for every kernel."""

    trg: Array
    src: Array
    dens: Array
    norms: Array

    def arguments(self, kernel: str) -> tuple[Array, Array | None]:
        """Return the density and the normals of a kernel."""
        dens = self.dens[{"laplace": 0, "stokes_comb": slice(6)}.get(kernel, slice(3))]
        return dens, self.norms if kernel in ("stokes_dl", "stokes_comb") else None


def _blobs(rng: np.random.Generator, n: int) -> Array:
    """Two Gaussian blobs of width 0.03 in the unit cube."""
    middle = np.where(np.arange(n) % 2, 0.3, 0.7)
    return np.clip(middle + 0.03 * rng.standard_normal((3, n)), 0, 1)


def _sphere(rng: np.random.Generator, n: int) -> Array:
    x = rng.standard_normal((3, n))
    return 0.5 + 0.3 * x / np.linalg.norm(x, axis=0)


def _uniform(rng: np.random.Generator, n: int) -> Array:
    return rng.random((3, n))


def _corner(rng: np.random.Generator, n: int) -> Array:
    return 0.4 * rng.random((3, n))


# Cloud of the sources, cloud of the targets, and the part of the targets that are sources.
CLOUDS = {
    "uniform": (_uniform, _uniform, 0.0),
    "same": (_uniform, _uniform, 1.0),
    "partly": (_uniform, _uniform, 0.3),
    "few": (_uniform, _uniform, 0.06),
    "blobs": (_blobs, _blobs, 0.0),
    "blobs_same": (_blobs, _blobs, 1.0),
    "sphere": (_sphere, _sphere, 0.0),
    "sphere_same": (_sphere, _sphere, 1.0),
    "elsewhere": (_corner, lambda rng, n: 1 - _corner(rng, n), 0.0),
    "blobs_seen_from_all_over": (_blobs, _uniform, 0.0),
}


def cloud(name: str, n: int, box: Any, dtype: str = "f8", seed: int = 0) -> Cloud:
    """Return a cloud of ``n`` sources and as many targets, in ``dtype``."""
    rng = np.random.default_rng([seed, n, sum(name.encode())])
    sources, targets, part = CLOUDS[name]
    edges = np.array(box, dtype=float)[:, None]
    # Blobs and spheres keep their shape in any box.
    edge = edges if sources in (_uniform, _corner) else edges.min()
    # Rounded down to float32 in both precisions, so that both share a reference.
    src = (edge * sources(rng, n) * (1 - 1e-7)).astype("f4").astype(dtype)
    if part == 1.0:
        trg = src
    else:
        edge = edges if targets in (_uniform, _corner) or name == "elsewhere" else edges.min()
        trg = (edge * targets(rng, n) * (1 - 1e-7)).astype("f4").astype(dtype)
        trg[:, : int(part * n)] = src[:, : int(part * n)]
    dens = rng.standard_normal((6, n)).astype("f4").astype(dtype)
    return Cloud(trg, src, dens, rng.standard_normal((3, n)).astype("f4").astype(dtype))


def promise(kernel: str, dens: Array, norms: Array | None, box: Any, tolerance: float) -> float:
    """Return the bound of the rms error."""
    length = float(np.prod(box)) ** (1 / 3)
    dens = np.atleast_2d(np.asarray(dens, dtype=float))
    bound = 0.0
    if kernel != "stokes_dl":
        bound += float(np.linalg.norm(dens[:3])) / length
    if norms is not None:
        square = (np.asarray(norms, dtype=float) ** 2).sum(axis=0)
        bound += float(np.sqrt(((dens[-3:] ** 2).sum(axis=0) * square).sum())) / length**2
    return tolerance * bound


def rms(values: Array) -> float:
    """Return the rms over points of the size of a potential or velocity."""
    return float(np.sqrt((np.atleast_2d(np.asarray(values, dtype=float)) ** 2).sum(axis=0).mean()))


def rounding(pot: Array, ref: Array) -> float:
    """Return what rounding in the dtype of ``pot`` may add to the error."""
    return ROUNDING * float(np.finfo(pot.dtype).eps) * rms(ref)


def error_over_promise(
    kernel: str, pot: Array, ref: Array, cloud: Cloud, box: Any, tolerance: float
) -> float:
    """Return the rms error over what the tolerance and rounding allow; at most 1 is promised."""
    dens, norms = cloud.arguments(kernel)
    return rms(pot - ref) / (promise(kernel, dens, norms, box, tolerance) + rounding(pot, ref))
