"""PyTorch and JAX, as tests of what both have in common call them."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest
from contract import call_of
from frameworks import BOX, inputs

import parki
from parki.runtime.spaces import why_unavailable

# Differences of sums, by steps of this size.
CHECK = {"eps": 1e-4, "atol": 1e-3, "rtol": 1e-4}


class Framework:
    """What both do alike, by ``module``, ``array`` and what they say in the subclasses."""

    module: Any

    def array(self, values: Any) -> Any:
        """Return an array of the framework on the device."""
        raise NotImplementedError

    def arrays(self, kernel: str, dtype: str = "f8", **more: Any) -> dict[str, Any]:
        """Return the inputs of a sum by name."""
        return {n: self.array(a.astype(dtype)) for n, a in inputs(kernel, **more).items()}

    def function(self, kernel: str, options: Any) -> Any:
        """Return a sum as a function of arrays: targets are sources where there are none.

        A box among them takes the place of the options' own one.
        """

        def call(given: Any) -> Any:
            trg, how = given["trg"], options
            norms = [given["norms"]] if "norms" in given else []
            arguments = trg, given.get("src", trg), given["dens"], *norms
            if "box" not in given:
                return call_of(self.module, kernel)(*arguments, how)
            how = {n: getattr(how, n) for n in ("periodicity", "tolerance", "wall")}
            return call_of(self.module, kernel)(*arguments, box=given["box"], **how)

        return call

    def functions(self, kernel: str = "stokes_dl") -> tuple[dict[str, Any], dict[str, Any]]:
        """Return inputs, and functions of one of them: sums, and a plan's sum of the density."""
        given, options = self.arrays(kernel), parki.EwaldOptions(3, BOX, 1e-4)
        call = self.function(kernel, options)
        plan = parki.Plan(kernel, *(a for name, a in given.items() if name != "dens"), options)

        def one(name: str) -> Any:  # of one argument: PyTorch counts those with defaults, too
            return lambda value: call({**given, name: value})

        found = {name: one(name) for name in given}
        found["plan"] = lambda value: self.module.apply(plan, value)
        return {**given, "plan": given["dens"]}, found


class Torch(Framework):
    """PyTorch: `torch.func`, and its own checks of derivatives."""

    name, step_of_yukawa = "torch", 1.0
    constant = r"radii requires a grad.* radii\.detach"
    no_values = r"requires a gradient.* parki\.torch"

    def __init__(self, device: str) -> None:
        import torch

        self.own, self.device, self.module = torch, device, importlib.import_module("parki.torch")
        self.grad, self.vjp, self.jvp = torch.func.grad, torch.func.vjp, torch.func.jvp
        self.jacrev, self.jacfwd, self.hessian = (
            getattr(torch.func, name) for name in ("jacrev", "jacfwd", "hessian")
        )
        self.stack = torch.stack

    def array(self, values: Any) -> Any:
        """Return a tensor on the device."""
        return self.own.from_numpy(np.array(values, order="C")).to(self.device)

    def host(self, values: Any) -> Any:
        """Return an array of NumPy."""
        return values.detach().cpu().numpy()

    def on_device(self, values: Any) -> bool:
        """Whether values are where they should be."""
        return bool(values.device.type == self.device)

    def tracked(self, values: Any) -> Any:
        """Return values of which a derivative is asked."""
        return values.detach().clone().requires_grad_()

    def vmap(self, call: Any, axis: int = 0) -> Any:
        """Return a function mapped over an axis of its arguments and its result."""
        return self.own.func.vmap(call, in_dims=axis, out_dims=axis)

    def compiled(self, call: Any) -> Any:
        """Return a compiled function, whose graph has no break."""
        self.own.compiler.reset()
        return self.own.compile(call, fullgraph=True, backend="aot_eager")

    def check(self, call: Any, given: Any, order: int = 1) -> None:
        """Compare derivatives in both modes with differences."""
        self.own.manual_seed(0)
        inputs = tuple(self.tracked(each) for each in given)
        how = {**CHECK, "fast_mode": True}
        assert self.own.autograd.gradcheck(call, inputs, check_forward_ad=True, **how)
        if order == 2:
            assert self.own.autograd.gradgradcheck(call, inputs, **how)

    @staticmethod
    def has_device() -> bool:
        """Whether there is a GPU that both have."""
        import torch

        return torch.cuda.is_available() and not why_unavailable("Cuda")


class Jax(Framework):
    """JAX, with numbers in double precision."""

    # Differences of sums are of their errors, too, which change faster with polynomials in r.
    name, step_of_yukawa = "jax", 0.1
    constant = "radii has no values within a transformation of JAX"
    no_values = r"dens has no values within .* parki\.jax"

    def __init__(self, device: str) -> None:
        import jax

        kind = {"cpu": "cpu", "cuda": "gpu"}[device]
        self.own, self.device = jax, jax.devices(kind)[0]
        self.module = importlib.import_module("parki.jax")
        self.grad, self.vjp, self.jvp, self.compiled = jax.grad, jax.vjp, jax.jvp, jax.jit
        self.jacrev, self.jacfwd, self.hessian = jax.jacrev, jax.jacfwd, jax.hessian
        self.stack = jax.numpy.stack

    def array(self, values: Any) -> Any:
        """Return an array on the device."""
        return self.own.device_put(np.asarray(values), self.device)

    def host(self, values: Any) -> Any:
        """Return an array of NumPy."""
        return np.asarray(values)

    def on_device(self, values: Any) -> bool:
        """Whether values are where they should be."""
        return bool(values.devices() == {self.device})

    def vmap(self, call: Any, axis: int = 0) -> Any:
        """Return a function mapped over an axis of its arguments and its result."""
        return self.own.vmap(call, in_axes=axis, out_axes=axis)

    def check(self, call: Any, given: Any, order: int = 1) -> None:
        """Compare derivatives in both modes with differences."""
        from jax.test_util import check_grads

        check_grads(call, tuple(given), order=order, **CHECK)

    @staticmethod
    def has_device() -> bool:
        """Whether there is a GPU that both have."""
        import jax

        return jax.default_backend() == "gpu" and not why_unavailable("Cuda")


def frameworks() -> list[Any]:
    """Return those that there are, on each device that they have; others are skipped by name."""
    found = []
    for kind in (Torch, Jax):
        missing = importlib.util.find_spec(kind.name) is None
        skipped = pytest.mark.skipif(missing, reason=f"{kind.name} is not installed")
        found.append(pytest.param((kind, "cpu"), marks=skipped, id=kind.name))
        if not missing and kind.has_device():
            found.append(pytest.param((kind, "cuda"), marks=pytest.mark.gpu, id=f"{kind.name}-gpu"))
    return found
