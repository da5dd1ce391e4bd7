"""Spheres: of one radius and of many, with torques, near a wall, and with noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sphere_reference import mobility

import parki
from faces.base import BOX, TOLERANCE, Array, Face, Given
from parki.interchange import to_host

VISCOSITY = 0.7


class Spheres(Face):
    """Velocities by forces; two pairs of spheres overlap."""

    name, words = "spheres", "`parki.Spheres` of one radius"
    tier = "2"
    sums = ("stokes_sl",)  # whose densities are forces
    periodicities, usual = (0, 1, 2, 3), ("stokes_sl", 0)
    counts = ((24, 24), (30, 30))
    torques = False
    lacks = {
        "counts": "as many spheres as there were; make new ones for others",
        "out": "velocities are scaled, in an array of their own",
        "memory": "it has several plans, each of which tells what it needs",
    }

    def given(self, kernel: str, periodicity: int, seed: int = 0, **how: Any) -> Given:
        found = super().given(kernel, periodicity, seed, **how)
        turning = [found.unit * found.dens[::-1]] * self.torques
        return found._replace(trg=found.src, dens=np.concatenate([found.dens, *turning]))

    def place(self, rng: np.random.Generator, box: Array, count: int) -> Array:
        points = 0.1 + 0.8 * super().place(rng, box, count)
        points[:, 1::12] = points[:, ::12] + [[0.03], [-0.02], [0.05]]
        return points

    def more(self, given: Given, rng: np.random.Generator) -> dict[str, Any]:
        return {"radii": given.unit * self.radii(np.arange(given.src.shape[1]))}

    def radii(self, numbers: Array) -> Any:
        """Return the radii of spheres in the unit 1, by their numbers."""
        return 0.05

    def reordered(self, value: Any, to: Array, of: Array) -> Any:
        return value[of] if np.ndim(value) else value

    def permuted(self, given: Given, to: Array, of: Array) -> Given:
        found = super().permuted(given, of, of)
        return found._replace(trg=found.src)

    def make(self, given: Given) -> Any:
        return parki.Spheres(given.src, given.more["radii"], given.options, viscosity=VISCOSITY)

    def apply(self, made: Any, dens: Any) -> Any:
        found = made.velocities(*self.halves(dens))
        return np.concatenate(found, axis=-2) if self.torques else found

    def halves(self, rows: Any) -> list[Any]:
        """Return forces, and torques where there are any; or what these move."""
        if not self.torques or rows is None:
            return [rows] * (1 + self.torques)
        if not hasattr(rows, "ndim"):
            rows = np.array(rows) if isinstance(rows, list) else np.from_dlpack(rows)
        return [rows[..., :3, :], rows[..., 3:, :]]

    def adjoint(self, made: Any, values: Any) -> Any:
        names = ("forces", "torques")[: 1 + self.torques]
        weights = dict(zip(("values", "turns"), self.halves(values), strict=False))
        found = made.vjp(None, **weights, wrt=names)
        return np.concatenate([found[name] for name in names], axis=-2)

    def inputs(self, given: Given) -> dict[str, Array]:
        acts = zip(("forces", "torques"), self.halves(given.dens), strict=False)
        return {"points": given.src, **dict(acts)}

    def changed(self, given: Given, moves: Mapping[str, Array]) -> Given:
        both = {name: a + moves[name] for name, a in self.inputs(given).items()}
        src = both.pop("points", given.src)
        return given._replace(trg=src, src=src, dens=np.concatenate([*both.values()]))

    def pull(self, made: Any, given: Given, values: Array) -> dict[str, Array]:
        weights = dict(zip(("values", "turns"), self.halves(values), strict=False))
        acts = self.halves(given.dens)
        return dict(made.vjp(*acts, **weights, wrt=tuple(self.inputs(given))))

    def push(self, made: Any, given: Given, moves: Mapping[str, Array]) -> Array:
        found = made.jvp(*self.halves(given.dens), tangents=dict(moves))
        return np.concatenate(found, axis=-2) if self.torques else found

    def checks(self, made: Any, given: Given) -> Any:
        return (made.check(given.dens),)

    def operator(self, made: Any) -> Any:
        return made.as_linear_operator(torques=self.torques)

    def move(self, made: Any, given: Given, box: bool = False) -> Any:
        made.update_points(given.src, **self.boxed(given, box))
        return made

    def promise(self, made: Any, dens: Any) -> Any:
        return 0.0 if self.torques else made.promise(dens)

    def reference(self, given: Given) -> Array:
        radii = np.broadcast_to(given.more["radii"], given.src.shape[1:])
        turning = given.dens[3:] if self.torques else np.zeros_like(given.dens)
        acts = given.dens[:3], turning
        where = [*given.options.box], given.options.periodicity
        moves, turns = mobility(given.src, radii, *acts, *where)
        found = np.concatenate([moves, turns]) if self.torques else moves
        return found / (8 * math.pi * VISCOSITY)

    def bound(self, given: Given) -> float:
        length = float(np.prod(given.options.box)) ** (1 / 3)
        sizes = [float(np.linalg.norm(each)) for each in self.halves(given.dens)]
        bound = sum(size / length ** (1 + n) for n, size in enumerate(sizes))
        bound *= 1 + self.torques / length  # velocities, and turns
        return given.options.tolerance * bound / (8 * math.pi * VISCOSITY)


class Radii(Spheres):
    """Spheres of many radii, one of which is a tracer's."""

    name, words = "radii", "`parki.Spheres` of many radii"

    def radii(self, numbers: Array) -> Any:
        return np.where(numbers % 7 == 3, 0.0, np.linspace(0.03, 0.08, numbers.size))


class Torques(Spheres):
    """With torques and turns."""

    name, words = "torques", "`parki.Spheres` with torques"
    torques = True
    lacks = Spheres.lacks | {"check": "the error of velocities by forces is measured"}


class RadiiTorques(Torques, Radii):
    """Spheres of many radii, with torques."""

    name, words = "radii with torques", "`parki.Spheres` of many radii with torques"


class WallSpheres(Spheres):
    """Near a wall, of two radii, compared with finer sums."""

    name, words = "wall spheres", "`parki.Spheres` near a wall"
    tier = "2 + 2"
    periodicities, usual = (2,), ("stokes_sl", 2)
    transposed = TOLERANCE
    differences = 1e-5  # of sums that have errors

    def settings(self) -> dict[str, Any]:
        return {"wall": "no-slip"}

    def radii(self, numbers: Array) -> Any:
        return np.where(numbers % 3, 0.05, 0.06)

    def exact(self, given: Given) -> Array:
        how = {"tolerance": 1e-3 * TOLERANCE, "cutoff": 0.5 * given.unit, "precision": "full"}
        finer = given.by(**how)
        return self.apply(self.make(finer), given.dens)

    def bound(self, given: Given) -> float:
        return 3 * super().bound(given)  # images are as many sums


class SlitSpheres(WallSpheres):
    """Between two walls."""

    name, words = "slit spheres", "`parki.Spheres` between two walls"

    def settings(self) -> dict[str, Any]:
        return {"wall": ("no-slip", "no-slip")}

    def box(self, periodicity: int, tilt: float) -> Array:
        """Return the edges of a box, whose walls stay where they are."""
        return np.array([*super().box(periodicity, tilt)[:2], BOX[2]])

    def place(self, rng: np.random.Generator, box: Array, count: int) -> Array:
        return super().place(rng, box, count) * [[1], [1], [0.9]]


class Noise(Spheres):
    """Brownian steps by one stream of random numbers; their covariance has tests of its own."""

    name, words = "noise", "Brownian steps of `parki.Spheres`"
    tier = "room"
    takes = ("nothing",)
    periodicities = (0, 3)
    lacks = Spheres.lacks | {
        "linear": "noise does not depend on forces",
        "adjoint": "noise does not depend on forces",
        "promise": "noise has an accuracy of its own",
        "derivatives": "noise does not depend on forces",
        "check": "noise has an accuracy of its own",
        "operator": "noise does not depend on forces",
        "several": "a step takes one set of forces",
        "precisions": "noise has an accuracy of its own",
        "mixed": "noise has an accuracy of its own",
        "spaces": "each library draws numbers of its own",
        "units": "noise has an accuracy of its own",
        "permuted": "random numbers follow the places of spheres",
    }

    def apply(self, made: Any, dens: Any) -> Any:
        return made.displacements(1.0, 0.1, 7, dens, accuracy=1e-6)

    def off(self, given: Given, found: Any, exact: Any) -> float:
        return float(abs(found - exact).max() / abs(exact).max() / 1e-4)


class RigidSpheres(Radii):
    """Rigid ones of many radii, compared with finer sums; rough ones may overlap."""

    name, words = "rigid spheres", "`parki.RigidSpheres`"
    tier = "room"
    periodicities, usual = (3,), ("stokes_sl", 3)
    transposed = permuting = 1e-6
    lacks = Spheres.lacks | {
        "linear": "each solve has an error of its own",
        "derivatives": "it has none",
        "check": "each motion tells its error",
    }

    def radii(self, numbers: Array) -> Any:
        return np.linspace(0.03, 0.08, numbers.size)

    def make(self, given: Given) -> Any:
        how = {"accuracy": given.options.tolerance, "roughness": 0.01, "viscosity": VISCOSITY}
        return parki.RigidSpheres(given.src, given.more["radii"], given.options, **how)

    def adjoint(self, made: Any, values: Any) -> Any:
        return made.velocities(values)  # the mobility is symmetric

    def promise(self, made: Any, dens: Any) -> Any:
        return 0.0

    def exact(self, given: Given) -> Array:
        return WallSpheres.exact(self, given)

    def bound(self, given: Given) -> float:
        return 3 * super().bound(given)


class RigidBodies(RigidSpheres):
    """Bodies of twelve blobs that are turned, with torques; some overlap."""

    name, words = "rigid bodies", "`parki.RigidBodies`"
    torques = True
    counts = ((8, 8), (10, 10))

    def more(self, given: Given, rng: np.random.Generator) -> dict[str, Any]:
        turned = rng.standard_normal((4, given.src.shape[1]))
        return {"quaternions": turned.astype("f4").astype("f8")}

    def reordered(self, value: Any, to: Array, of: Array) -> Any:
        return value[:, of]

    def make(self, given: Given) -> Any:
        shape = parki.BodyShape.sphere(0.05 * given.unit, 12)
        how = {"accuracy": given.options.tolerance, "viscosity": VISCOSITY}
        return parki.RigidBodies(shape, given.src, given.more["quaternions"], given.options, **how)

    def adjoint(self, made: Any, values: Any) -> Any:
        return self.apply(made, values)

    def operator(self, made: Any) -> Any:
        return made.as_linear_operator()

    def move(self, made: Any, given: Given, box: bool = False) -> Any:
        turned = given.more["quaternions"]
        made.update_positions(given.src, turned, **self.boxed(given, box))
        return made

    def off(self, given: Given, found: Any, exact: Any) -> float:
        found, least = to_host(found), 30 * given.options.tolerance
        parts = zip(self.halves(found), self.halves(exact), strict=True)
        return max(float(abs(one - other).max() / abs(other).max()) for one, other in parts) / least


class RigidNoise(Noise, RigidSpheres):
    """Brownian steps of rigid spheres."""

    name, words = "rigid noise", "Brownian steps of `parki.RigidSpheres`"
    periodicities, usual = (3,), RigidSpheres.usual
    counts = ((8, 8), (10, 10))
    lacks = Noise.lacks | RigidSpheres.lacks | {"threads": "as `parki.RigidSpheres`, and slow"}

    def radii(self, numbers: Array) -> Any:
        return RigidSpheres.radii(self, numbers)

    def make(self, given: Given) -> Any:
        return RigidSpheres.make(self, given)

    def apply(self, made: Any, dens: Any) -> Any:
        return made.displacements(1.0, 0.1, 7, dens)


FACES = (
    *(Spheres(), Radii(), Torques(), RadiiTorques(), WallSpheres(), SlitSpheres(), Noise()),
    *(RigidSpheres(), RigidBodies(), RigidNoise()),
)
