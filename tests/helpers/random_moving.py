"""Random calls of rooms, of which spheres and bodies that forces move are here.

A room is a `Case` whose calls make an object and check a law that has an independent value:
linearity, reciprocity, other units, a cell of two cells, a closed form, a direct sum, a moved
object against a new one. Half of the cases have odd arguments, which are refused by a `ParkiError`,
or give finite numbers. Valid arguments are never refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from odd_values import OTHERS
from random_case import Case

import parki

# Changes after which an array has the same values.
SAME = ("list", "read-only", "strided", "backwards", "by columns", "swapped bytes", "memory")
ALONG = {0: (), 1: (0,), 2: (0, 1), 3: (0, 1, 2)}


class Room(Case):
    """A case of a room: a law holds where no argument is odd."""

    axes: tuple[int, ...] = (0, 1, 2, 3, 3)  # numbers of periodic ones
    strict = True  # whether valid arguments may not be refused

    def __init__(self, seed: int, number: int, space: str) -> None:
        super().__init__(seed, number, space)
        self.odd, self.dtype = int(self.rng.choice(3, p=(0.5, 0.4, 0.1))), "f8"

    def asarray(self, values: Any) -> Any:
        """Return an array in the memory of the space."""
        return self.xp.asarray(np.asarray(values, dtype=self.dtype))

    def law(self, what: str, found: Any, expected: Any, bound: float, size: float = 0.0) -> None:
        """Check numbers to a part of the largest one, if no argument was odd."""
        self.finite(found)
        if any(said.rpartition("=")[2] not in SAME for said in self.said):
            return
        found, expected = (self.host(each).astype("f8") for each in (found, expected))
        assert found.shape == expected.shape, f"{what}: shape {found.shape}, not {expected.shape}"
        size = max(size, float(abs(expected).max(initial=0.0)))
        error = float(abs(found - expected).max(initial=0.0))
        self.said += [] if error <= bound * size else [what]
        assert error <= bound * size, f"{what}: error {error:.3g} of {size:.3g}, bound {bound:g}"

    def places(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return points that are apart by 0.3 and more, and the edges of their box."""
        edges = np.array(self.pick([1.0, 1.0, 1.0], [2.0, 1.0, 1.5]))
        corners = np.indices((2, 2, 2)).reshape(3, -1)[:, self.rng.permutation(8)[:count]]
        brownian_noise = corners + 0.5 + self.rng.uniform(-0.2, 0.2, (3, count))
        return brownian_noise * edges[:, None] / 2, edges


class Moving(Room):
    """Laws of what forces and torques move: a class says how such a system is made."""

    accuracy = 1e-3  # of the laws

    def make(self, points: Any, **given: Any) -> Any:
        """Return the system with its centres at points; ``unit`` scales its lengths."""
        raise NotImplementedError

    def radii(self, points: Any) -> Any:
        """Return a radius for each point, or one for points that are odd."""
        shape = np.shape(points) if type(points) is list else getattr(points, "shape", ())
        fits = tuple(shape)[1:] == self.sized.shape
        return self.sized if fits else 0.1

    def motion(self, system: Any, forces: Any, torques: Any) -> Any:
        """Return velocities above angular velocities, shape (6, N)."""
        both = system.velocities(forces=forces, torques=torques)
        return self.xp.concatenate([self.xp.asarray(each) for each in both])

    def move(self, system: Any, points: Any, **given: Any) -> None:
        """Move the centres."""
        system.update_points(points, **given)

    def call_law(self) -> None:
        count = int(self.rng.integers(1, 5))
        places, edges = self.places(count)
        periods = self.pick(*self.axes)
        given = {"periodicity": periods, "box": edges.tolist(), "tolerance": 1e-6}
        self.sized = self.rng.uniform(0.06, 0.12, count)
        law = self.pick("linear", "symmetric", "shifted", "moved", "units", "two cells", "turned")
        self.name = f"{type(self).__name__}: {law}, {count} in {periods}"
        forces, torques, *others = (self.rng.standard_normal((3, count)) for _ in range(4))
        if law in ("units", "two cells", "turned") and periods < 3:
            forces -= forces.mean(axis=1, keepdims=True)  # else the gauge has a unit of length
        points = self.asarray(places)
        system = self.make(**self.oddly({"points": points} | given, [*OTHERS], much=False))
        own = {"forces": self.asarray(forces), "torques": self.asarray(torques)}
        found = self.motion(system, **self.oddly(own))
        self.finite(found)
        if any(said.rpartition("=")[2] not in SAME for said in self.said):
            return
        expected, size = self.expected(law, places, given, forces, torques, others, found)
        self.law(law, expected, found if law != "symmetric" else size, self.accuracy)

    def expected(
        self, law: str, places: Any, given: Any, forces: Any, torques: Any, others: Any, found: Any
    ) -> Any:
        """Return what a law makes of other calls, in the place of the result."""
        edges, periods = np.array(given["box"]), given["periodicity"]
        pair, other = (self.asarray(forces), self.asarray(torques)), [*map(self.asarray, others)]
        if law == "linear":
            system = self.make(self.asarray(places), **given)
            both = self.motion(system, *(2 * a - b for a, b in zip(pair, other, strict=True)))
            return (both + self.motion(system, *other)) / 2, None
        if law == "symmetric":
            answer = self.host(self.motion(self.make(self.asarray(places), **given), *other))
            one, two = np.concatenate([forces, torques]), np.concatenate(others)
            whole = np.abs(one * answer).sum() + np.abs(two * self.host(found)).sum()
            products = (one * answer).sum(), (two * self.host(found)).sum()
            return products[0] + whole, products[1] + whole
        if law == "shifted":
            shift = self.rng.random((3, 1)) * edges[:, None]
            if given["periodicity"] < 3:
                shift[given["periodicity"] :] *= 0.01  # the box is where its points are
            return self.motion(self.make(self.asarray(places + shift), **given), *pair), None
        if law == "moved":
            system = self.make(self.asarray(places + self.rng.uniform(-0.01, 0.01)), **given)
            self.move(system, self.asarray(places))
            return self.motion(system, *pair), None
        if law == "units":
            unit = self.pick(8.0, 3.7, 1e-3, 1e4)
            scaled = given | {"box": (edges * unit).tolist()}
            system = self.make(self.asarray(places * unit), unit=unit, **scaled)
            answer = self.motion(system, pair[0] * unit, pair[1] * unit**2)
            return self.xp.concatenate([answer[:3], answer[3:] * unit]), None
        if law == "turned":
            flags, order = np.arange(3) < periods, np.roll(np.arange(3), 1)
            turned = given | {"periodicity": tuple(map(bool, flags[order]))}
            turned["box"] = edges[order].tolist()
            system = self.make(self.asarray(places[order]), **turned)
            answer = self.motion(system, *(each[order] for each in pair))
            back = np.argsort(order)
            return answer[np.concatenate([back, back + 3])], None
        axis = self.pick(*ALONG[periods], 0)
        if periods == 0:
            return found, None
        double = np.where(np.arange(3) == axis, 2.0, 1.0)
        apart = np.where(np.arange(3) == axis, edges, 0.0)[:, None]
        twice = np.concatenate([places, places + apart], axis=1)
        sized, self.sized = self.sized, np.tile(self.sized, 2)
        system = self.make(self.asarray(twice), **given | {"box": (edges * double).tolist()})
        self.sized = sized
        answer = self.motion(system, *(self.xp.concatenate([each] * 2, axis=1) for each in pair))
        return answer[:, places.shape[1] :], None

    def call_noise(self) -> None:
        places, edges = self.places(int(self.rng.integers(1, 5)))
        self.sized = self.rng.uniform(0.06, 0.12, places.shape[1])
        given = {
            "periodicity": self.pick(*{self.axes[0], 3}),
            "box": edges.tolist(),
            "tolerance": 1e-6,
            "cutoff": 0.75,  # as the noise of another split has the covariance alone in common
        }
        self.name = f"{type(self).__name__}.noise, {places.shape[1]} in {given['periodicity']}"
        system = self.make(self.asarray(places), **given)
        found = system.noise(**self.oddly({"rng": 3}))
        moved = self.make(self.asarray(places * 0.99), **given)
        self.move(moved, self.asarray(places))
        both = self.xp.concatenate([self.xp.asarray(n).reshape(-1) for n in found])
        again = self.xp.concatenate([self.xp.asarray(n).reshape(-1) for n in moved.noise(3)])
        self.law("noise of moved", again, both, 1e-2)

    def call_method(self) -> None:
        """What else such a system does, with odd arguments, after which it is as it was."""
        count = int(self.rng.integers(1, 5))
        places, edges = self.places(count)
        self.sized = self.rng.uniform(0.06, 0.12, count)
        given = {"periodicity": self.pick(self.axes[0], 3), "box": edges.tolist()}
        system = self.make(self.asarray(places), **given, tolerance=1e-6)
        forces, torques = self.random(3, count), self.random(3, count)
        before = self.motion(system, forces, torques)
        both = {"forces": forces, "torques": torques}
        both |= self.pick({}, {}, {"gradient": np.eye(3)[[1, 2, 0]] if count else None})
        step = {"kT": 1.0, "dt": 1e-3, "rng": 5}
        methods: dict[str, dict[str, Any]] = {
            "solve": both,
            "forces": {"velocities": forces, "turns": torques},
            "displacements": step | {"forces": forces},
            "noise": {"rng": 5},
            "check": {"forces": forces},
            "promise": {"forces": forces},
            "as_linear_operator": {},
            "brownian_stresslets": {"kT": 1.0, "rng": 5},
            "flow": {"forces": forces, "points": self.asarray(places * 0.9)},
            "describe": {},
        }
        name = self.pick(*(each for each in methods if hasattr(type(system), each)))
        self.name = f"{type(self).__name__}.{name}, {count} in {given['periodicity']}"
        own = methods[name]
        if name == "flow" and not hasattr(system, "radii"):
            own = {"motion": system.solve(forces), "points": self.asarray(places * 0.9)}
        found = getattr(system, name)(**self.oddly(own))
        if name == "as_linear_operator":
            found = found @ self.random(found.shape[1])
        each = found if isinstance(found, tuple) else (found,)
        if name not in ("describe", "solve"):
            self.finite(tuple(part for part in each if part is not None))
        again = self.motion(system, forces, torques)
        self.said, said = [], self.said
        self.law(f"after {name}", again, before, 1e-6)
        self.said += said

    def call_odd_places(self) -> None:
        """Coincident, far, few and no points, and thin boxes."""
        count = self.pick(0, 1, 2)
        places, edges = self.places(count)
        self.sized = np.full(count, 0.1)
        kind = self.pick("same", "nearly", "far", "thin", "as it is", "float32")
        self.name = f"{type(self).__name__}: {kind}, {count}"
        self.said.append(kind)
        self.dtype = "f4" if kind == "float32" else "f8"
        if kind == "same":
            places = places[:, :1].repeat(count, axis=1) if count else places
        elif kind == "nearly":
            places = (places[:, :1] + 1e-15 * places) if count else places
        elif kind == "far":
            places = places + np.array(self.pick([1e3, 0, 0], [1e8, 1, 1], [0, -1e16, 0]))[:, None]
        elif kind == "thin":
            edges[2] = self.pick(1e-2, 1e-3, 1e3)
        periods = self.pick(*self.axes)
        box = (
            edges.tolist()
            if self.pick(True, False)
            else [*edges[:periods], *[None] * (3 - periods)]
        )
        given = {"periodicity": periods, "box": box, "tolerance": 1e-3}
        system = self.make(self.asarray(places), **given)
        forces = self.asarray(self.rng.standard_normal((3, count)))
        self.finite(self.motion(system, forces, 0 * forces))
        self.finite(system.noise(3))


class SpheresRoom(Moving):
    """`parki.Spheres`."""

    def make(self, points: Any, unit: float = 1.0, **given: Any) -> Any:
        """Return spheres, at any places."""
        radii = self.radii(points)
        return parki.Spheres(points, radii * unit, **given)

    def call_tolerance(self) -> None:
        places, edges = self.places(4)
        given = {"periodicity": self.pick(*self.axes), "box": edges.tolist()}
        self.sized = self.rng.uniform(0.02, 0.2, 4)
        forces = self.asarray(self.rng.standard_normal((3, 4)))
        both = [self.make(self.asarray(places), **given, tolerance=t) for t in (1e-3, 1e-6)]
        found, exact = (each.velocities(forces) for each in both)
        error = float(self.xp.sqrt(((found - exact) ** 2).sum() / 4))
        bound = 2 * float(both[0].promise(forces))  # of few targets about their mean square
        assert error <= bound, f"error {error:.3g}, bound {bound:.3g}"


class RigidRoom(Moving):
    """`parki.RigidSpheres`."""

    def make(self, points: Any, unit: float = 1.0, **given: Any) -> Any:
        """Return rigid spheres."""
        radii = self.radii(points)
        return parki.RigidSpheres(points, radii * unit, accuracy=1e-5, **given)


class BodiesRoom(Moving):
    """`parki.RigidBodies`, of balls."""

    def make(self, points: Any, unit: float = 1.0, **given: Any) -> Any:
        """Return cubes of blobs, which turning the axes leaves as they are."""
        corners = (2.0 * np.indices((2, 2, 2)).reshape(3, -1) - 1) * 0.05 * unit
        shape = parki.BodyShape(corners, 0.03 * unit)
        return parki.RigidBodies(shape, points, accuracy=1e-5, **given)

    def move(self, system: Any, points: Any, **given: Any) -> None:
        """Move the bodies."""
        system.update_positions(points, **given)
