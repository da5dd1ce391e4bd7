"""Random calls of what is built on sums: energies, surfaces, derivatives; a table of all rooms."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from odd_values import OTHERS
from random_case import Case
from random_moving import SAME, BodiesRoom, RigidRoom, Room, SpheresRoom

import parki
from parki.reference import direct_sum


class BrinkmanRoom(Room):
    """Sums of Brinkman's equation: direct sums, other units, thin boxes."""

    names = ("brinkman_sl", "brinkman_dl")

    def call_reference(self) -> None:
        name = self.pick(*self.names)
        alpha = self.pick(1e-4, 1e-2, 0.5, 3.0, 20.0)
        unit = self.pick(1.0, 1.0, 1e-3, 100.0)
        trg, src, dens, norms, edges = self.cloud()
        periods, want = self.pick(*self.axes), self.pick("u", "u", "grad_u")
        given: dict[str, Any] = {"trg": trg * unit, "src": src * unit, "dens": dens}
        given |= {"box": (edges * unit).tolist(), "periodicity": periods, "tolerance": 1e-6}
        given |= {"alpha": alpha / unit, "want": want}
        given |= {"norms": norms} if name == "brinkman_dl" else {}
        self.name = f"{name}: alpha {alpha:g}, {periods} periodic, unit {unit:g}"
        given = self.oddly(given, OTHERS)
        self.compare(name, given, getattr(parki, name)(**given))

    def call_units(self) -> None:
        name, unit = self.pick(*self.names), self.pick(1e-3, 3.7, 1e3)
        alpha, periods = self.pick(1e-4, 0.5, 20.0), self.pick(*self.axes[1:])
        trg, src, dens, norms, edges = self.cloud()
        self.name = f"{name}: units, alpha {alpha:g}, {periods} periodic"
        found = []
        for s in (1.0, unit):
            own: dict[str, Any] = {"norms": norms} if name == "brinkman_dl" else {}
            own |= {"box": (edges * s).tolist(), "periodicity": periods, "alpha": alpha / s}
            power = 1 if name == "brinkman_sl" else 2
            sums = getattr(parki, name)(trg * s, src * s, dens, tolerance=1e-6, **own)
            found.append(sums * s**power)
        size = float(self.xp.sqrt((dens**2).sum())) / edges.prod() ** (power / 3)
        self.law("units", found[1], found[0], 1e-5, size)

    def cloud(self) -> Any:
        """Return targets, sources, densities, normals and edges."""
        edges = np.array(self.pick([1.0, 1.0, 1.0], [2.0, 1.0, 1.5], [1.0, 1.0, 0.05]))
        trg, src = (self.asarray(self.rng.random((3, 9)) * edges[:, None]) for _ in range(2))
        return trg, src, self.random(3, 9), self.random(3, 9), edges


class EnergiesRoom(Room):
    """`parki.energy`, against direct sums, differences, and other layouts."""

    def call_energy(self) -> None:
        count, periods = int(self.rng.integers(1, 7)), self.pick(*self.axes)
        edges = np.array(self.pick([1.0, 1.0, 1.0], [2.0, 1.0, 1.5]))
        points = self.rng.random((3, count)) * edges[:, None]
        kappa = self.pick(None, None, 3.0)
        charges = self.rng.standard_normal(count)
        given: dict[str, Any] = {"points": self.asarray(points), "charges": self.asarray(charges)}
        given |= {"periodicity": periods, "box": edges.tolist(), "tolerance": 1e-6, "rows": False}
        law = self.pick("direct", "rows", "virial", "force", "two cells", "systems", "dipoles")
        self.name = f"energy: {law}, {count} in {periods}, kappa {kappa}"
        given |= {} if kappa is None or law == "dipoles" else {"kappa": kappa}
        called = self.oddly(given, [*OTHERS, "exclude", "systems", "virial", "dipoles"])
        found = parki.energy(**called)
        self.finite(tuple(each for each in found if each is not None))
        if any(said.rpartition("=")[2] not in SAME for said in self.said):
            return
        size = float(self.xp.abs(given["charges"] * found.potentials).sum()) + 0.1 * (
            charges @ charges
        )
        if law == "direct":
            how = {"box": edges.tolist(), "periodicity": periods}
            name = "laplace" if kappa is None else parki.kernel("yukawa", kappa=kappa)
            exact = direct_sum(name, points, points, charges, **how)
            self.law(law, found.energy, charges @ exact / 2, 1e-5, size)
        elif law == "rows":
            turned = given | {"points": given["points"].T.copy(), "rows": True}
            other = parki.energy(**turned)
            self.law(law, other.energy, found.energy, 1e-9, size)
            self.law(law, self.host(other.forces).T, found.forces, 1e-9, size)
        elif law == "virial" and found.virial is not None and kappa is None and periods in (0, 3):
            trace = float(np.trace(self.host(found.virial)))  # energies fall as one over the length
            self.law(law, trace, float(found.energy), 1e-4, size)
        elif law == "force":
            move = self.rng.standard_normal((3, count)) * 1e-4
            one, two = (
                float(parki.energy(**given | {"points": self.asarray(points + s * move)}).energy)
                for s in (1, -1)
            )
            work = float((self.host(found.forces) * move).sum())
            self.law(law, one - two, -2 * work, 1e-2, size * 1e-3)
        elif law == "two cells" and periods:
            apart = np.array([edges[0], 0, 0])[:, None]
            twice = given | {
                "points": self.asarray(np.concatenate([points, points + apart], axis=1))
            }
            twice |= {"charges": self.asarray(np.tile(charges, 2))}
            twice |= {"box": (edges * [2, 1, 1]).tolist()}
            self.law(law, parki.energy(**twice).energy, 2 * float(found.energy), 1e-4, 2 * size)
        elif law == "systems":
            both = given | {
                "points": self.asarray(np.concatenate([points, points[:, ::-1]], axis=1))
            }
            both |= {"charges": self.asarray(np.concatenate([charges, charges[::-1]]))}
            other = parki.energy(**both, systems=[0, count, 2 * count]).energy
            self.law(law, other, [float(found.energy)] * 2, 1e-5, size)
        elif law == "dipoles":
            self.dipoles(given, edges, points, charges, periods)

    def dipoles(self, given: Any, edges: Any, points: Any, charges: Any, periods: int) -> None:
        """Compare with direct sums: ``q u + d . grad u``, of the potential of both."""
        moments = 0.3 * self.rng.standard_normal(points.shape)
        found = parki.energy(**given, dipoles=self.asarray(moments))
        exact = np.zeros(2)
        for name, dens in (("laplace", charges), ("laplace_dipole", moments)):
            how = {"box": edges.tolist(), "periodicity": periods, "want": ("u", "grad_u")}
            u, slopes = direct_sum(name, points, points, dens, **how)
            exact += [(charges * u).sum() / 2, (moments * slopes).sum() / 2]
        size = abs(exact).sum() + 1.0
        self.law("dipoles", found.energy, exact.sum(), 1e-4, size)


class SurfacesRoom(Room):
    """Layers on spheres, whose flow is a closed form, at any target."""

    def call_layer(self) -> None:
        radius, order = self.pick(0.2, 0.25), 10
        centre = self.rng.random((3, 1))
        surface = parki.Surface.spheres(self.asarray(centre), radius, order=order)
        side = self.pick("mean", "outside", "inside")
        nodes = self.host(surface.nodes)
        out = (nodes - centre) / radius
        some = self.rng.integers(nodes.shape[1], size=4)
        law = self.pick("double", "normal", "charge", "dipole", "sphere")
        kind = self.pick("nodes", "whole periods", "near", "near", "far", "wrapped")
        if law in ("charge", "dipole", "sphere") and kind in ("whole periods", "wrapped"):
            kind = "near"  # as their constant in a box is that of a gauge
        away = np.zeros(4)
        if kind in ("near", "far"):
            step = self.pick(1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.03) if kind == "near" else 0.15
            away = step * self.pick(1, -1) * radius * np.ones(4)
        targets = nodes[:, some] + away * out[:, some]
        periods = 3 if kind in ("whole periods", "wrapped") else self.pick(*self.axes)
        targets = targets + 1.0 if kind == "whole periods" else targets
        targets = targets % 1 if kind == "wrapped" else targets
        inside = {"mean": 0.5, "outside": 0.0, "inside": 1.0}[side] * np.ones(4)
        if kind in ("near", "far") and abs(step) > 1e-14:
            inside = np.where(away < 0, 1.0, 0.0)
        periods = 0 if law in ("charge", "dipole", "sphere") else periods
        self.name = f"surface: {law}, {kind} {away[0]:.0e}, {side}, {periods} periodic"
        given = {"targets": self.asarray(targets), "periodicity": periods}
        given |= {"box": [1.0] * periods + [None] * (3 - periods), "tolerance": 1e-6, "side": side}
        force = self.rng.standard_normal(3)
        density = {
            "charge": np.ones(nodes.shape[1]),
            "dipole": np.ones(nodes.shape[1]),
            "normal": out,
        }.get(law, np.tile(force[:, None], nodes.shape[1]))
        call = {"charge": "charge_layer", "dipole": "dipole_layer", "double": "double_layer"}
        given["density"] = self.asarray(density)
        given = self.oddly(given, ["accuracy", "order", "width", "want"])
        found = getattr(surface, call.get(law, "single_layer"))(**given)
        r = np.maximum(radius, radius + away)
        expected: Any = {
            "double": lambda: 8 * math.pi * inside * force[:, None],
            "normal": lambda: np.zeros((3, 4)),
            "dipole": lambda: -4 * math.pi * inside,
            "charge": lambda: 4 * math.pi * radius**2 / r,
            "sphere": lambda: self.of_sphere(force, radius, r, out[:, some]),
        }[law]()
        size = {"normal": 4 * math.pi * radius}.get(law, 1.0)
        self.law(law, found, expected, 2e-4, size)

    def of_sphere(self, force: Any, radius: float, r: Any, out: Any) -> Any:
        """Return the flow of a sphere with a constant force per area, times 8 pi viscosity."""
        total = 4 * math.pi * radius**2 * force[:, None]
        along = (out * total).sum(axis=0) * out
        return (total + along) / r + radius**2 / 3 * (total - 3 * along) / r**3


class DerivativesRoom(Room):
    """Second derivatives in PyTorch or JAX: symmetric, and the differences of first ones."""

    names = ("laplace", "stokes_sl", "yukawa", "stokes_dl", "brinkman_sl")

    def call_second(self) -> None:
        library = self.pick("torch", "jax")
        name = self.pick(*self.names)
        own = {"yukawa": {"kappa": 3.0}, "brinkman_sl": {"alpha": 3.0}}.get(name, {})
        periods = self.pick(*self.axes)
        self.name = f"{library}.{name}: second derivatives in {periods}"
        points, other = self.rng.uniform(0.1, 0.9, (3, 3)), self.rng.random((3, 4))
        scalar = name in ("laplace", "yukawa")
        dens = self.rng.standard_normal(4 if scalar else (3, 4))
        values = self.rng.standard_normal(3 if scalar else (3, 3))
        norms = self.rng.standard_normal((3, 4)) if name == "stokes_dl" else None
        given = {"periodicity": periods, "box": [1, 1, 1], "tolerance": 1e-6} | own
        one, two = self.rng.standard_normal((2, 3, 3))
        try:
            products = getattr(self, f"of_{library}")
            along = products(name, points, other, dens, norms, values, one, given)
            across = products(name, points, other, dens, norms, values, two, given)
        except ModuleNotFoundError as error:
            raise parki.ParkiError from error
        size = abs(along * two).sum() + abs(across * one).sum()
        self.law("symmetric", (along * two).sum(), (across * one).sum(), 1e-6, size)
        step = 1e-4
        ends = []
        for s in (step, -step):
            arrays = {"trg": points + s * one, "src": other, "dens": dens, "norms": norms}
            call = parki.kernel(name, **own), *arrays.values()
            ends.append(
                parki.vjp(
                    *call,
                    values=values,
                    wrt=("trg",),
                    **{n: v for n, v in given.items() if n not in own},
                )
            )
        slopes = [each["trg"] if isinstance(each, dict) else each for each in ends]
        self.law("difference", along, (slopes[0] - slopes[1]) / (2 * step), 2e-2, abs(along).max())

    def of_torch(
        self,
        name: str,
        points: Any,
        other: Any,
        dens: Any,
        norms: Any,
        values: Any,
        along: Any,
        given: Any,
    ) -> Any:
        """Return the second derivative by the targets, times a direction."""
        torch, module = importlib.import_module("torch"), importlib.import_module("parki.torch")
        taken = torch.tensor(points, requires_grad=True)
        arrays = [None if a is None else torch.tensor(a) for a in (other, dens, norms)]
        result = (getattr(module, name)(taken, *arrays, **given) * torch.tensor(values)).sum()
        (slope,) = torch.autograd.grad(result, taken, create_graph=True)
        return torch.autograd.grad((slope * torch.tensor(along)).sum(), taken)[0].numpy()

    def of_jax(
        self,
        name: str,
        points: Any,
        other: Any,
        dens: Any,
        norms: Any,
        values: Any,
        along: Any,
        given: Any,
    ) -> Any:
        """Return the same."""
        jax, module = importlib.import_module("jax"), importlib.import_module("parki.jax")
        jax.config.update("jax_enable_x64", True)

        def total(trg: Any) -> Any:
            return (getattr(module, name)(trg, other, dens, norms, **given) * values).sum()

        return np.asarray(jax.jvp(jax.grad(total), (points,), (along,))[1])


ROOMS: dict[str, type[Case]] = {
    "sums": Case,
    "spheres": SpheresRoom,
    "rigid": RigidRoom,
    "bodies": BodiesRoom,
    "brinkman": BrinkmanRoom,
    "energies": EnergiesRoom,
    "surfaces": SurfacesRoom,
    "derivatives": DerivativesRoom,
}
