"""Random calls of every public function, with what their results must be: see `Case`.

`scripts/random_calls.py` makes thousands of them, and ``tests/test_random_calls.py`` some.
"""

from __future__ import annotations

import copy
import importlib
import math
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from odd_values import CHANGES, ODD, OTHERS, changed

import parki
from parki.ewald.checks import Check
from parki.ewald.points import OPTIONS
from parki.ewald.sums import SUMS
from parki.interchange import to_host
from parki.reference import direct_sum


class Case:
    """A random call: `run` makes it, and `said` tells what was odd about it."""

    names = ("laplace", "laplace", "stokes_sl", "stokes_sl", *SUMS.listed)
    strict = False  # whether valid arguments may not be refused
    periodicities: tuple[Any, ...] = (0, 1, 2, 3, 3, 3, (False, True, True))
    library, array = "", staticmethod(lambda values: values)  # PyTorch or JAX, and its arrays

    @property
    def recipes(self) -> list[str]:
        """Names of what a case may call, which a room has in place of those of `Case`."""
        own = [each for each in type(self).__mro__ if each is not Case or type(self) is Case]
        return sorted({name for each in own for name in vars(each) if name.startswith("call_")})

    @classmethod
    def use(cls, library: str) -> None:
        """Let the sums of `parki.torch` or `parki.jax` be called in place of all functions."""
        module = importlib.import_module({"jax": "jax.numpy"}.get(library, library))
        if library == "jax":
            importlib.import_module("jax").config.update("jax_enable_x64", True)
        cls.library, cls.array = library, staticmethod(module.asarray)

    def __init__(self, seed: int, number: int, space: str) -> None:
        self.rng, self.said, self.name = np.random.default_rng([seed, number]), list[str](), ""
        self.xp = parki.get_execution_space(space).array_module
        self.odd = int(self.rng.choice(3, p=(0.15, 0.65, 0.2)))  # odd arguments yet to come

    # ---------------------------------------------------------------- arguments
    def pick(self, *values: Any) -> Any:
        """Return one of the values."""
        return values[self.rng.integers(len(values))]

    def random(self, *shape: int) -> Any:
        """Return random numbers of the case's dtype, in the memory of the space."""
        return self.xp.asarray(self.rng.standard_normal(shape).astype(self.dtype))

    def sizes(self) -> dict[str, Any]:
        """Return points and options of a sum."""
        self.dtype = self.pick("f8", "f8", "f4")
        periodicity = self.pick(*self.periodicities)
        count = periodicity if isinstance(periodicity, int) else 2
        lengths = np.array(self.pick([1.0, 1.0, 1.0], [2.0, 1.0, 1.5]))
        trg, src = (
            self.xp.asarray((self.rng.random((3, n)) * lengths[:, None]).astype(self.dtype))
            for n in self.rng.integers(1, 40, 2)
        )
        box: Any = lengths.tolist()
        if count < 3 and self.pick(True, False):
            box[2 if periodicity != (False, True, True) else 0] = None
        elif count == 3 and self.pick(True, False, False):
            box = parki.lattice(*lengths, *self.pick((0.3,), (0.4, -0.2, 0.1)))
        tolerance = self.pick(1e-3, 1e-3, 1e-2) if self.dtype == "f4" else self.pick(1e-3, 1e-7)
        src = trg if self.pick(True, False) else src
        options = {"periodicity": periodicity, "box": box, "tolerance": tolerance}
        return {"trg": trg, "src": src, **options}

    def kernel(self) -> tuple[str, dict[str, Any]]:
        """Return the name of a sum, and its parameters."""
        name = self.pick(*self.names)
        parameters = SUMS.listed[name].parameters
        own: dict[str, Any] = {
            each: self.pick(0.5, 3, 20.0) for each in ("kappa", "alpha") if each in parameters
        }
        if "epsilon" in parameters and self.pick(True, False, False):
            own = {"epsilon": self.pick(0.05, 0.0)}
        return name, own

    def sums(self, name: str) -> dict[str, Any]:
        """Return the arguments of `parki.Plan` for a sum."""
        given = self.sizes()
        if name in ("stokes_dl", "stokes_comb", "brinkman_dl"):
            given["norms"] = self.random(3, given["src"].shape[1])
        if self.pick(True, False, False):
            given["want"] = self.pick("grad_u", ("u",), "p", ("u", "grad_u"))
        if self.pick(*[False] * 9, True):
            given["systems"] = [0, 0, given["src"].shape[1]]
        if self.pick(*[False] * 9, True):
            given["exclude"] = self.rng.integers(-1, 5, given["src"].shape[1])
        return given

    def dens(self, name: str, given: dict[str, Any]) -> Any:
        """Return a density."""
        shape = SUMS.listed[name].make(**SUMS.listed[name].example).density_shape(1)[:-1]
        many = self.pick((), (), (), (2,))
        return self.random(*many, *shape, given["src"].shape[1])

    def values(self, name: str, given: dict[str, Any]) -> Any:
        """Return values at the targets."""
        vector = (3,) if name.startswith(("stokes", "brinkman")) else ()
        return self.random(*vector, given["trg"].shape[1])

    def oddly(self, given: dict[str, Any], others: Any = (), much: bool = True) -> dict[str, Any]:
        """Return arguments with odd ones among them, and perhaps some of ``others``."""
        found, names = dict(given), [*given, *given, *others]
        while names and self.odd and (much or self.pick(True, False)):
            self.odd -= 1
            name = self.pick(*names)
            # Copies: no case may change the values of those after it, as results or iterators do.
            old, new = found.get(name), copy.deepcopy(self.pick(*ODD), {id(math): math})
            text = repr(new)[:60]
            if name in OTHERS and self.pick(True, True, False):
                new = copy.deepcopy(self.pick(*OTHERS[name]))
                text = repr(new)
            elif isinstance(old, dict) and self.pick(True, False):
                self.odd += 1
                new, text = self.oddly(old), "the above"
            elif isinstance(old, self.xp.ndarray) and self.pick(True, True, False):
                text = self.pick(*CHANGES)
                new = changed(old, text)
            found[name] = new
            self.said.append(f"{name}={text}")
        return found

    # ---------------------------------------------------------------- what is called
    def run(self) -> None:
        """Make the call, and check what it returns."""
        names = ("call_sum", "call_velocities") if self.library else self.recipes
        recipes = [getattr(self, name) for name in names if name.startswith("call_")]
        weights = np.array(
            [{"call_sum": 6, "call_plan": 8, "call_law": 6}.get(r.__name__, 1) for r in recipes]
        )
        recipe = recipes[self.rng.choice(len(recipes), p=weights / weights.sum())]
        self.name = recipe.__name__[5:]
        recipe()

    def call_sum(self) -> None:
        name, own = self.kernel()
        given = self.sums(name)
        given = self.oddly(given | own | {"dens": self.dens(name, given)}, OTHERS)
        self.name = name
        self.compare(name, given, self.of_library(name, given))

    def of_library(self, name: str, given: dict[str, Any]) -> Any:
        """Return what a function returns, for arrays of the library that is used."""
        if not self.library:
            return getattr(parki, name)(**given)
        module, taken = importlib.import_module(f"parki.{self.library}"), dict(given)
        for n, each in given.items():
            if isinstance(each, self.xp.ndarray) and each.dtype in ("f4", "f8"):
                taken[n] = self.array(each.copy())
        return getattr(module, name)(**taken)

    def call_velocities(self) -> None:
        if not self.library:
            return
        given = self.sizes()
        points, _ = given.pop("trg"), given.pop("src")
        given |= {"points": points, "radii": 0.05, "forces": self.random(*points.shape)}
        given = self.oddly(given, [*OTHERS, "torques", "viscosity"])
        self.finite(self.of_library("sphere_velocities", given))

    def call_plan(self) -> None:
        name, own = self.kernel()
        usual = {"kernel": parki.kernel(name, **own), **self.sums(name)}
        given = self.oddly(usual, OTHERS, much=False)
        dens, values = self.dens(name, usual), self.values(name, usual)
        plan: Any = parki.Plan(**given)
        moved = {n: usual[n] for n in ("trg", "src", "norms", "systems") if n in usual}
        moved |= {"trg": usual["trg"] * 0.5, "src": usual["src"] * 0.5}
        method, own, others = self.pick(
            *[("__call__", {"dens": dens}, ["out"])] * 3,
            ("timed", {"dens": dens}, ()),
            ("adjoint", {"values": values}, ()),
            ("promise", {"dens": dens}, ()),
            ("check", {"dens": dens}, ["targets"]),
            *[("update_points", moved, ["box", "exclude", "systems", "norms"])] * 3,
            ("describe", {}, ()),
            ("__repr__", {}, ()),
            ("_repr_html_", {}, ()),
            ("as_linear_operator", {}, ()),
        )
        own = self.oddly(own, others)
        self.name = f"Plan.{method}"
        sizes = {n: given[n] for n in given if n != "kernel"}
        try:
            found = getattr(plan, method)(**own)
        except parki.ParkiError:
            self.compare(given["kernel"], sizes | {"dens": dens}, plan(dens))  # as it was
            raise
        if method == "__call__":
            self.compare(given["kernel"], sizes | own, found)
        elif method == "adjoint":
            self.same_product(plan, own["values"], found)
        elif method == "update_points":
            kept = sizes | {n: v for n, v in own.items() if v is not None}
            self.compare(given["kernel"], kept | {"dens": dens}, plan(dens))
        elif method == "as_linear_operator":
            self.finite(found @ self.random(found.shape[1]))
        elif method not in ("describe", "__repr__", "_repr_html_"):
            self.finite(found)

    def call_derivatives(self) -> None:
        name, own = self.kernel()
        given = {n: v for n, v in self.sums(name).items() if n != "want"}
        given |= {"kernel": parki.kernel(name, **own), "dens": self.dens(name, given)}
        if self.pick(True, False):
            by: Any = self.pick(("dens",), ("dens", "trg"), ("src", "box"), ["trg"])
            given |= {"values": self.values(name, given), "wrt": by}
            self.name = "vjp"
            self.finite(parki.vjp(**self.oddly(given, OTHERS)))
        else:
            moves = {n: self.random(*given[n].shape) for n in self.pick(["dens"], ["trg", "dens"])}
            self.name = "jvp"
            self.finite(parki.jvp(**self.oddly(given | {"tangents": moves}, OTHERS)))

    def call_boxes(self) -> None:
        given = {n: v for n, v in self.sizes().items() if n != "box"}
        count = given["src"].shape[1]
        given["trg"] = given["src"]
        given |= {"systems": [0, count // 2, count], "boxes": [[2, 2, 2], [3, 3, 3]]}
        given |= {"dens": self.random(count), "periodicity": 3}
        self.finite(parki.laplace(**self.oddly(given, OTHERS)))

    def call_options(self) -> None:
        given = {"periodicity": self.pick(0, 1, 2, 3), "box": [1, 2, 3], "tolerance": 1e-4}
        repr(parki.EwaldOptions(**self.oddly(given, OTHERS)))

    def call_lattice(self) -> None:
        given = {"lx": 1.0, "ly": 2, "lz": 1, "xy": 0.3, "xz": 0.1, "yz": 0.2}
        self.finite(parki.lattice(**self.oddly(given)))

    def call_kernel(self) -> None:
        family, own = self.kernel()
        given = self.oddly({"family": family, **own}, ["kappa", "epsilon", "blob"])
        assert isinstance(parki.kernel(given.pop("family"), **given), str)

    def call_cell_list(self) -> None:
        points = self.sizes()["trg"]
        names = ("periodic", "origin", "execution_space", "scale", "spare", "offsets", "along")
        cells = self.pick({"cutoff": 0.3}, {"cutoff": None, "shape": [3, 4, 5]})
        given = {"points": points, "box": [2.0, 1.0, 1.5], **cells}
        found = parki.CellList(**self.oddly(given, names))
        order = np.sort(self.host(found.order))
        np.testing.assert_array_equal(order, np.arange(len(order)))

    def call_near_pairs(self) -> None:
        given = self.oddly(self.sizes() | {"radius": self.pick(0.2, 2.0)})
        found = parki.near_pairs(**given)
        self.finite(found.displacements)
        values = {"values": found.distances}
        self.finite(found.matrix(**self.oddly(values)).data)

    def call_mesh(self) -> None:
        mesh, points = parki.mesh, self.sizes()["trg"]
        window = self.pick("kaiser_bessel", "prolate", "bspline", "m4prime")
        size = {"bspline": {"order": 4}, "m4prime": {}}.get(window, {"points": 6, "shape": 9.0})
        made = getattr(mesh, window)(**self.oddly(size, much=False))
        shape = self.pick((16, 12, 8), (20, 20))
        given: dict[str, Any] = {"shape": shape, "spacing": 0.2}
        grid = mesh.Grid(**self.oddly(given, ["origin", "periodic"], much=False))
        given = {"points": points[: len(shape)], "grid": grid, "window": made, "method": "auto"}
        values = {"values": self.random(points.shape[1])}
        if self.pick(True, False):
            given = self.oddly(given | values, ["execution_space"])
            found = mesh.spread(**given)
            self.finite(found.values)
            given.pop("values")
            self.finite(mesh.interpolate(**self.oddly(given | {"grid": found})))
            return
        plan: Any = mesh.SpreadPlan(**self.oddly(given, ["components"]))
        self.finite(plan(**self.oddly(values, ["out"])))
        other: Any = mesh.InterpolatePlan(**self.oddly(given, ["components"]))
        self.finite(other(**self.oddly({"values": self.random(*shape)}, ["out"])))

    def call_spheres(self) -> None:
        given = self.sizes()
        points, shape = given.pop("trg"), given.pop("src").shape
        shape = tuple(points.shape)
        radii = self.pick(0.05, self.rng.uniform(0.02, 0.1, shape[1]))
        given |= {"points": points, "radii": radii}
        spheres = parki.Spheres(**self.oddly(given, [*OTHERS, "viscosity"], much=False))
        forces, torques = self.random(*shape), self.random(*shape)
        both = self.pick({"forces": forces}, {"forces": forces, "torques": torques})
        rng = self.xp.random.default_rng(0)
        method, own, others = self.pick(
            ("velocities", both, ["torques"]),
            ("flow", both | {"points": points * 0.9}, ["want"]),
            ("vjp", both | {"values": self.random(*shape)}, ["turns", "wrt"]),
            ("jvp", both | {"tangents": both | {"points": forces}}, ()),
            ("noise", {"rng": rng}, ["torques", "accuracy"]),
            ("displacements", {"kT": 1.0, "dt": 0.1, "rng": rng, **both}, ["accuracy"]),
            ("promise", {"forces": forces}, ()),
            ("check", {"forces": forces}, ()),
            ("update_points", {"points": points * 0.9}, ["box"]),
            ("describe", {}, ()),
            ("as_linear_operator", {}, ["torques"]),
        )
        own = self.oddly(own, others)
        self.name = f"Spheres.{method}"
        found = getattr(spheres, method)(**own)
        if method == "as_linear_operator":
            found = found @ self.random(found.shape[1])
        self.finite(found if method not in ("describe", "update_points") else None)

    def call_reference(self) -> None:
        given = self.sizes()
        given = {n: v for n, v in given.items() if n != "tolerance"}
        given |= {"kernel": "laplace", "dens": self.random(given["src"].shape[1])}
        try:
            odd = self.oddly(given, ["norms", "want", "xi", "options"])
            device = {n: v for n, v in odd.items() if isinstance(v, self.xp.ndarray)}
            arrays = {n: self.host(v) for n, v in device.items()}
            found = direct_sum(**odd | arrays)
        except (TypeError, ValueError) as error:  # which it documents, as it imports no parki
            frames = traceback.extract_tb(error.__traceback__)
            if "reference" not in frames[-1].filename:
                raise
            raise parki.ParkiError from error
        self.finite(found)

    def call_others(self) -> None:
        which = self.pick("Progress", "get_execution_space", "get_array_module")
        self.name = which
        if which == "Progress":
            given = {"title": "solving", "steps": self.pick(None, 5), "rtol": 1e-3}
            show = parki.Progress(**self.oddly(given))
            show(**self.oddly({"residual": 0.1}))
            list(show.over(**self.oddly({"items": [1, 2]})))
        else:
            getattr(parki.utils, which)(**self.oddly({"space": "CPU"}))

    # ---------------------------------------------------------------- what is right
    def host(self, values: Any) -> Any:
        """Return an array as NumPy's."""
        return np.asarray(to_host(values))

    def finite(self, found: Any) -> None:
        """Refuse results with NaN or infinity."""
        if isinstance(found, dict):
            found = tuple(found.values())
        if isinstance(found, tuple):
            for each in found:
                self.finite(each)
        elif isinstance(found, Check):
            assert found.error <= found.promise + 1e-4 * found.flow, str(found)
        elif found is not None:
            assert np.isfinite(self.host(found)).all(), "the result is not finite"

    def same_product(self, plan: Any, values: Any, found: Any) -> None:
        """Check an adjoint: ``<values, plan(dens)>`` is ``<found, dens>``."""
        self.finite(found)
        if isinstance(plan.want, str) and np.shape(values) != () and np.shape(found)[-1:] != (0,):
            dens = self.random(*found.shape)
            one, other = self.host(plan(dens)), self.host(found) * self.host(dens)
            left, right = (one * self.host(values)).sum(), other.sum()
            size = np.abs(one * self.host(values)).sum() + np.abs(other).sum()
            assert abs(left - right) <= 1e-2 * size, f"adjoint: {left} and {right}"

    def compare(self, name: str, given: dict[str, Any], found: Any) -> None:
        """Compare a sum with the reference, if its arguments are of ordinary size."""
        self.finite(found)
        own = {n: given[n] for n in SUMS.parameters if n in given}
        kernel = parki.kernel(name, **own) if own else str(name)
        options = parki.EwaldOptions(**{n: given[n] for n in OPTIONS if n in given})
        arrays = [given.get(n) for n in ("trg", "src", "norms", "dens")]
        hosts = [None if a is None else self.host(a).astype("f8") for a in arrays]
        edges = [length for length in options.edges if length is not None]
        sizes = [np.abs(a).max(initial=0.0) for a in hosts if a is not None]
        sizes += [float(each) for each in own.values() if not isinstance(each, str)]
        least = [*edges, *(each for each in sizes if each)]
        alone = all(given.get(n) is None for n in ("systems", "exclude"))
        plain = alone and not options.walled and options.dl_mean != "flux"
        if not plain or min(least) < 1e-3 or max(least) > 1e3 or not hosts[0].size:
            return
        want = given.get("want", "u")
        plan: Any = parki.Plan(kernel, *arrays[:3], options, want=want)
        dens, promises = hosts.pop(), plan.promise(arrays[-1])
        single = self.host(arrays[-1]).ndim == len(plan.task.sum.density_shape(0))
        results = (found,), (promises,), (want,)
        results = results if isinstance(want, str) else (found, promises, want)
        lengths, periods = options.box, options.periodicity
        for values, bounds, each in zip(*results, strict=True):
            for n, density in enumerate(dens[None] if single else dens):
                trg, src, norms = hosts
                given = {"box": lengths, "periodicity": periods, "want": each}
                exact = direct_sum(kernel, trg, src, density, norms, **given)
                apart = self.host(values if single else values[n]) - exact
                error, size = (math.sqrt((a * a).sum() / trg.shape[1]) for a in (apart, exact))
                unit = np.finfo(options.arithmetic(plan.dtype)).eps
                scatter = 1 + 2 / math.sqrt(trg.shape[1])  # of few targets about their mean square
                bound = scatter * (bounds if single else bounds[n]) + 200 * unit * size
                assert error <= bound, f"{each}: error {error:.3g} of {size:.3g}, bound {bound:.3g}"


def outcome(seed: int, number: int, space: str, room: type[Case] = Case) -> tuple[str, str]:
    """Make a call; return what it was and what went wrong, or "" with "right" or "refused"."""
    case, errors = room(seed, number, space), []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            case.run()
            found = "right"
        except parki.ParkiError as error:
            found = "refused"
            if case.strict and not case.said:
                errors = [f"refused, though valid: {type(error).__name__}: {str(error)[:200]}"]
        except Exception as error:  # noqa: BLE001 - what this is looking for
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(frame.filename).name}:{frame.lineno}"
            errors = [f"{type(error).__name__} at {where}: {str(error)[:150]}"]
    own = parki.errors.ParkiWarning
    errors += [
        f"{w.category.__name__}: {w.message}" for w in seen if not issubclass(w.category, own)
    ]
    return (f"{case.name}({', '.join(case.said)})", errors[0]) if errors else ("", found)
