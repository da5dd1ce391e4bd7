"""Other libraries' calls of the same sums, and grids."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping
from typing import Any

import adapters
import mesh_reference
import numpy as np

import parki
from faces.base import BLOBS, BOX, Array, Face, Given
from faces.plans import Call
from faces.spheres import VISCOSITY, Spheres
from parki.interchange import to_host

# Whose arrays are not NumPy's, or whose calls are one-shot.
OWN = "arrays belong to the framework"


class Torch(Call):
    """parki.torch: tensors, the transpose by its reverse mode."""

    name, words = "torch", "`parki.torch`"
    tier = "2"
    usual = (*BLOBS, 1)
    lacks = Call.lacks | {"spaces": OWN, "foreign": OWN, "refusals": OWN}

    def tensor(self, values: Any) -> Any:
        """Return a tensor of the same numbers."""
        import torch

        return torch.from_numpy(np.array(values, order="C"))

    def apply(self, made: Given, dens: Any) -> Any:
        import parki.torch as self_module

        trg, src, norms = (None if a is None else self.tensor(a) for a in made.points)
        return self.called(self_module, made, trg, src, norms, self.tensor(dens)).numpy()

    def called(self, module: Any, made: Given, trg: Any, src: Any, norms: Any, dens: Any) -> Any:
        """Return the result of a call of a module."""
        from contract import call_of

        normals = [] if norms is None else [norms]
        return call_of(module, made.kernel)(trg, src, dens, *normals, made.options, **made.more)

    def adjoint(self, made: Given, values: Any) -> Any:
        import parki.torch as module

        trg, src, norms = (None if a is None else self.tensor(a) for a in made.points)
        dens = self.tensor(self.zeros(made, values)).requires_grad_()
        self.called(module, made, trg, src, norms, dens).backward(self.tensor(values))
        return dens.grad.numpy()

    def zeros(self, made: Given, values: Any) -> Array:
        """Return a density, or as many as there are sets of values."""
        sets = values.ndim - (1 if made.example.scalar else 2)
        return np.zeros((*values.shape[:sets], *made.dens.shape))

    def pull(self, made: Given, given: Given, values: Array) -> dict[str, Array]:
        own = self.adapter()
        call, arrays = self.function(own, given)
        found = own.vjp(call, *arrays)[1](own.array(values))
        return {n: own.host(a) for n, a in zip(self.inputs(given), found, strict=True)}

    def push(self, made: Given, given: Given, moves: Mapping[str, Array]) -> Array:
        own = self.adapter()
        call, arrays = self.function(own, given)
        changes = tuple(own.array(moves[name]) for name in self.inputs(given))
        return own.host(own.jvp(call, arrays, changes)[1])

    def adapter(self) -> Any:
        """Return the framework, as tests of both call it."""
        return adapters.Torch("cpu")

    def function(self, own: Any, given: Given) -> tuple[Any, tuple[Any, ...]]:
        """Return the sum as a function of its inputs, and these."""

        def call(trg: Any, src: Any, dens: Any, norms: Any = None) -> Any:
            return self.called(own.module, given, trg, src, norms, dens)

        return call, tuple(own.array(a) for a in self.inputs(given).values())


class Jax(Torch):
    """parki.jax: arrays of JAX, the transpose by its reverse mode."""

    name, words = "jax", "`parki.jax`"
    usual = Call.usual

    def apply(self, made: Given, dens: Any) -> Any:
        import jax

        import parki.jax as module

        with jax.enable_x64(True):
            trg, src, norms = (None if a is None else jax.numpy.asarray(a) for a in made.points)
            found = self.called(module, made, trg, src, norms, jax.numpy.asarray(dens))
            return np.asarray(found)

    def adjoint(self, made: Given, values: Any) -> Any:
        import jax

        import parki.jax as module

        with jax.enable_x64(True):
            trg, src, norms = (None if a is None else jax.numpy.asarray(a) for a in made.points)
            call = functools.partial(self.called, module, made, trg, src, norms)
            _, back = jax.vjp(call, jax.numpy.asarray(self.zeros(made, values)))
            return np.asarray(back(jax.numpy.asarray(values))[0])

    def adapter(self) -> Any:
        return adapters.Jax("cpu")

    def pull(self, made: Given, given: Given, values: Array) -> dict[str, Array]:
        with self.adapter().own.enable_x64(True):
            return super().pull(made, given, values)

    def push(self, made: Given, given: Given, moves: Mapping[str, Array]) -> Array:
        with self.adapter().own.enable_x64(True):
            return super().push(made, given, moves)


class LibMobility(Spheres):
    """libMobility's calls, of positions by rows."""

    name, words = "libMobility", "libMobility's calls"
    tier = "room"
    periodicities = (0, 3)
    lacks = {name: why for name, why in Spheres.lacks.items() if name != "counts"} | {
        "mixed": "libMobility has no such option",
        "adjoint": "libMobility has no such call; the mobility is symmetric",
        "several": "libMobility takes one set of forces",
        "derivatives": "`parki.Spheres` has derivatives",
        "check": "`parki.Spheres` measures its error",
        "operator": "`parki.Spheres` is a linear operator",
        "empty": "a solver has positions",
        "box": "`setParameters` takes another box",
        "rollback": "after positions that are refused there are none",
        "late": "after positions that are refused there are none",
        "foreign": "positions are rows",
        "refusals": "positions and forces are converted",
        "threads": "each thread needs a solver of its own",
    }

    def make(self, given: Given) -> Any:
        from parki.libmobility import PSE, NBody

        if given.options.periodicity:
            made = PSE("periodic", "periodic", "periodic")
            lengths = dict(zip(("Lx", "Ly", "Lz"), given.options.box, strict=True))
            made.setParameters(psi=2.0 / given.unit, **lengths)
        else:
            made = NBody("open", "open", "open")
            made.setParameters(algorithm="advise")
        radius, tolerance = given.more["radii"], given.options.tolerance
        made.initialize(VISCOSITY, radius, False, tolerance=tolerance)
        return self.move(made, given)

    def apply(self, made: Any, dens: Any) -> Any:
        return made.Mdot(dens.T.copy())[0].T.copy()

    def move(self, made: Any, given: Given, box: bool = False) -> Any:
        made.setPositions(given.src.T.copy())
        return made

    def promise(self, made: Any, dens: Any) -> Any:
        return 0.0


class Mesh(Face):
    """Values that are spread onto a grid; the transpose is interpolation."""

    name, words = "mesh", "`parki.mesh`"
    tier = "room"
    takes = ("NaN",)
    sums, periodicities, usual = (
        ("stokes_sl",),
        (3,),
        ("stokes_sl", 3),
    )  # whose densities are the values
    lacks = {
        "mixed": "a grid has the precision of its values",
        "moves": "a plan of a grid is of its points",
        "box": "a plan of a grid is of its points",
        "rollback": "a plan of a grid is of its points",
        "late": "a plan of a grid is of its points",
        "several": "`components=` has several values of each point",
        "units": "a grid is in units of its spacing",
        "memory": "a grid takes what its values take",
        "derivatives": "a grid has the transpose alone",
        "check": "sums on a grid are exact up to rounding",
        "operator": "a plan of a grid and its transpose are two",
    }

    def given(self, kernel: str, periodicity: int, seed: int = 0, **how: Any) -> Given:
        found = super().given(kernel, periodicity, seed, **how)
        return found._replace(trg=found.src)

    def grid(self) -> Any:
        """Return the grid."""
        return parki.mesh.Grid((12, 10, 9), spacing=(BOX / (12, 10, 9)).tolist())

    def make(self, given: Given) -> Any:
        how = {"components": 3, "execution_space": given.options.execution_space}
        kinds = parki.mesh.SpreadPlan, parki.mesh.InterpolatePlan
        return [kind(given.src, self.grid(), **how) for kind in kinds]

    def apply(self, made: Any, dens: Any, **how: Any) -> Any:
        if "out" in how:
            made[0](dens, out=how["out"].reshape(3, *self.grid().shape))
            return how["out"]
        return made[0](dens).reshape(3, -1)

    def adjoint(self, made: Any, values: Any) -> Any:
        return made[1](values.reshape(3, *self.grid().shape))

    def promise(self, made: Any, dens: Any) -> Any:
        return 0.0

    def results(self, found: Array, to: Array) -> Array:
        return found  # values of a grid

    def exact(self, given: Given) -> Array:
        window = parki.mesh.kaiser_bessel(6)
        return mesh_reference.spread(given.src, given.dens, self.grid(), window).reshape(3, -1)

    def off(self, given: Given, found: Any, exact: Any) -> float:
        found = np.asarray(to_host(found))
        single = found.dtype == np.float32
        return float(abs(found - exact).max() / abs(exact).max() / (1e-5 if single else 1e-12))


EVERY = (Torch(), Jax(), LibMobility(), Mesh())

FACES = tuple(
    f for f in EVERY if f.name not in ("torch", "jax") or importlib.util.find_spec(f.name)
)
