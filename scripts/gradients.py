"""Check and time the derivatives of every sum, by parki itself, by PyTorch and by JAX.

    python scripts/gradients.py                                  # on this machine's CPU
    python scripts/gradients.py --space Cuda --points 1000000    # on a GPU

Small sums are checked first: the adjoint of a plan against the plan, `parki.vjp` and `parki.jvp`
against differences of direct sums, and the derivatives of PyTorch and JAX by their own checks.
Then a table has the time of each kernel's sum, and the time of derivatives relative to it. Sums and
derivatives alternate, and ratios are of medians. A framework that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import parki
from parki.ewald.pipeline.placed_sum import sum_once
from parki.ewald.sums import SUMS
from parki.reference import direct_sum
from parki.runtime import ExecutionSpace

BOX = (1.2, 1.0, 0.8)
# Steps and bounds for checks by differences of sums, and a tolerance that suits them.
TOLERANCE, STEPS = 1e-6, {"eps": 1e-4, "atol": 2e-3, "rtol": 1e-3}
Arrays = dict[str, Any]


def cloud(rng: np.random.Generator, count: int, others: Any, least: float) -> Any:
    """Return points at least this far from each other and from others, images included."""
    walls, found = np.array(BOX)[:, None], others
    while found.shape[1] < others.shape[1] + count:
        point = walls * rng.random((3, 1))
        away = found - point
        away -= walls * np.rint(away / walls)
        if (np.sqrt((away**2).sum(axis=0)) >= least).all():
            found = np.concatenate([found, point], axis=1)
    return found[:, others.shape[1] :]


def inputs(kernel: str, targets: int, sources: int, least: float = 0.0) -> Arrays:
    """Return targets, sources, density and perhaps normals on the host, by name."""
    rng, kind = np.random.default_rng(0), SUMS[kernel]
    if least:
        src = cloud(rng, sources, np.zeros((3, 0)), least)
        found = {"trg": cloud(rng, targets, src, least), "src": src}
    else:
        walls = np.array(BOX)[:, None]
        found = {"trg": walls * rng.random((3, targets)), "src": walls * rng.random((3, sources))}
    found["dens"] = rng.standard_normal(kind.density_shape(sources))
    if kind.normals:
        found["norms"] = rng.standard_normal((3, sources))
    return found


def values_for(kernel: str, targets: int) -> Any:
    """Return random values at the targets."""
    shape = (3, targets) if SUMS[kernel].results == 3 else (targets,)
    return np.random.default_rng(1).standard_normal(shape)


def arguments(kernel: str, given: Arrays, options: Any) -> tuple[Any, ...]:
    """Return the arguments of `parki.vjp`."""
    return kernel, given["trg"], given["src"], given["dens"], given.get("norms"), options


def host(array: Any) -> Any:
    """Return an array as NumPy's."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


# --- checks ---------------------------------------------------------------------------------------


def check_parki(space: ExecutionSpace) -> bool:
    """Check adjoints and derivatives of every kernel; return whether all are correct."""
    xp, good = space.array_module, True
    print("| kernel | adjoint against plan | reverse mode | forward mode |")
    print("| --- | --- | --- | --- |")
    for number, kernel in enumerate(SUMS):
        periodicity = (3, 0, 1, 2, 3, 2)[number]
        options = parki.EwaldOptions(periodicity, BOX, 1e-8, execution_space=space)
        large, v = inputs(kernel, 3000, 4000), values_for(kernel, 3000)
        there = {name: xp.asarray(array) for name, array in large.items()}
        plan = parki.Plan(kernel, there["trg"], there["src"], there.get("norms"), options)
        apart = 0.0
        for _ in range(3):  # the later ones are replayed, on a device
            u, back = host(plan(there["dens"])), host(plan.adjoint(xp.asarray(v)))
            sizes = float(np.linalg.norm(v) * np.linalg.norm(u))
            apart = max(apart, abs((u * v).sum() - (back * large["dens"]).sum()) / sizes)
        given, v = inputs(kernel, 12, 12, 0.2), values_for(kernel, 12)
        moves = {n: np.random.default_rng(2).standard_normal(a.shape) for n, a in given.items()}
        slope = difference(kernel, given, moves, periodicity)
        there = {name: xp.asarray(array) for name, array in given.items()}
        how = arguments(kernel, there, options)
        found = parki.vjp(*how, values=xp.asarray(v), wrt=tuple(given))
        product = sum((host(found[name]) * move).sum() for name, move in moves.items())
        size = float(np.linalg.norm(slope))
        reverse = abs(product - (v * slope).sum()) / size / float(np.linalg.norm(v))
        change = parki.jvp(*how, tangents={name: xp.asarray(m) for name, m in moves.items()})
        forward = float(np.linalg.norm(host(change) - slope)) / size
        good &= apart < 1e-14 and reverse < 1e-7 and forward < 1e-7
        name = f"{kernel}, {periodicity}P"
        print(f"| {name} | {apart:.0e} | {reverse:.0e} | {forward:.0e} |", flush=True)
    return good


def difference(kernel: str, given: Arrays, moves: Arrays, periodicity: int) -> Any:
    """Differentiate the direct sum along changes, by differences of order 8."""
    found, step = 0.0, 1e-3
    for distance, weight in {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}.items():
        for sign in (1, -1):
            at = {n: array + sign * distance * step * moves[n] for n, array in given.items()}
            how: Any = {"box": BOX, "periodicity": periodicity}
            points = at["trg"], at["src"], at["dens"], at.get("norms")
            found = found + sign * weight / step * direct_sum(kernel, *points, **how)
    return found


def check_torch(space: ExecutionSpace) -> str:
    """Run PyTorch's checks of derivatives; return the outcome."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed"
    import torch

    import parki.torch

    device = "cuda" if space.on_device else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} here has no GPU"
    for number, kernel in enumerate(SUMS):
        options = parki.EwaldOptions(number % 4, BOX, TOLERANCE)
        given = [torch.from_numpy(a).to(device) for a in inputs(kernel, 4, 5, 0.2).values()]
        given = [each.requires_grad_() for each in given]
        torch.manual_seed(0)
        call = partial(parki.torch._sum, kernel)
        torch.autograd.gradcheck(
            lambda *each, call=call, options=options: call(*each, options),
            given,
            fast_mode=True,
            check_forward_ad=True,
            **STEPS,
        )
        with torch.no_grad():
            assert call(*given, options).device.type == device
    options = parki.EwaldOptions(3, BOX)
    loss = torch.compile(
        lambda x, f: parki.torch.stokes_sl(x, x, f, options).square().sum(),
        fullgraph=True,
        backend="aot_eager",
    )
    points, forces = (torch.rand(3, 100, device=device, requires_grad=True) for _ in range(2))
    loss(points, forces).backward()
    assert torch.isfinite(points.grad).all()
    return f"PyTorch {torch.__version__} on {device}: gradcheck of all kernels passes"


def check_jax(space: ExecutionSpace) -> str:
    """Run JAX's checks of derivatives; return the outcome."""
    if importlib.util.find_spec("jax") is None:
        return "JAX is not installed"
    import jax
    from jax.test_util import check_grads

    import parki.jax

    jax.config.update("jax_enable_x64", True)
    platform_name = "gpu" if space.on_device else "cpu"
    try:
        device = jax.devices(platform_name)[0]
    except RuntimeError:
        return f"JAX {jax.__version__} here has no {platform_name}"
    for number, kernel in enumerate(SUMS):
        options = parki.EwaldOptions((number + 2) % 4, BOX, TOLERANCE)
        given = [jax.device_put(a, device) for a in inputs(kernel, 4, 5, 0.2).values()]
        call = partial(parki.jax._sum, kernel)
        sums = jax.jit(lambda *each, call=call, options=options: call(*each, options))
        check_grads(sums, given, order=1, **STEPS)
        assert sums(*given).devices() == {device}
    return f"JAX {jax.__version__} on {device}: check_grads of all kernels passes, within jit"


# --- times ----------------------------------------------------------------------------------------


def medians(space: ExecutionSpace, calls: dict[str, Callable[[], Any]], rounds: int) -> Arrays:
    """Return the median seconds of each call; the calls alternate."""
    for call in calls.values():
        for _ in range(3):  # kernels are compiled, lists of pairs kept, launches recorded
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            wait(space)
            start = time.perf_counter()
            call()
            wait(space)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def wait(space: ExecutionSpace) -> None:
    """Wait until the device is done."""
    if space.on_device:
        space.array_module.cuda.Device().synchronize()


def calls_of(
    kernel: str, space: ExecutionSpace, points: int, tolerance: float, periodicity: int
) -> dict[str, Callable[[], Any]]:
    """Return functions for a sum and its derivatives: one-shot, by a plan, and by PyTorch."""
    xp = space.array_module
    given = {n: xp.asarray(a) for n, a in inputs(kernel, points, points).items()}
    v = xp.asarray(values_for(kernel, points))
    options = parki.EwaldOptions(periodicity, BOX, tolerance, execution_space=space)
    how = arguments(kernel, given, options)
    plan = parki.Plan(kernel, given["trg"], given["src"], given.get("norms"), options)
    found: dict[str, Callable[[], Any]] = {
        "sum": lambda: sum_once((*how[:3], *how[4:]), how[3], "u"),
        "by densities": lambda: parki.vjp(*how, values=v),
        "by all": lambda: parki.vjp(*how, values=v, wrt=tuple(given)),
        "plan": lambda: plan(given["dens"]),
        "adjoint": lambda: plan.adjoint(v),
    }
    return found | of_torch(kernel, space, given, v, options)


def of_torch(
    kernel: str, space: ExecutionSpace, given: Arrays, v: Any, options: Any
) -> dict[str, Callable[[], Any]]:
    """Return PyTorch's sum, and its backward passes through the graph of one forward pass."""
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    import parki.torch

    if space.on_device and not torch.cuda.is_available():
        return {}
    tensors = {name: torch.from_dlpack(array) for name, array in given.items()}
    values, call = torch.from_dlpack(v), partial(parki.torch._sum, kernel)
    some = {**tensors, "dens": tensors["dens"].clone().requires_grad_()}
    every = {name: each.clone().requires_grad_() for name, each in tensors.items()}
    by_some, by_every = (call(*each.values(), options) for each in (some, every))

    def backward(result: Any, leaves: list[Any]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(result, leaves, values, retain_graph=True)

    return {
        "torch": lambda: call(*tensors.values(), options),
        "torch by densities": backward(by_some, [some["dens"]]),
        "torch by all": backward(by_every, list(every.values())),
    }


def timing(space: ExecutionSpace, points: int, tolerance: float, periodicity: int) -> None:
    """Print the table of times."""
    columns = ["kernel", "sum, ms", "by densities", "by all", "plan, ms", "adjoint"]
    columns += ["PyTorch: sum", "by densities", "by all"]
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for kernel in SUMS:
        calls = calls_of(kernel, space, points, tolerance, periodicity)
        t = medians(space, calls, 7)
        one, plan = t["sum"], t["plan"]
        cells = [f"{1e3 * one:.3g}", f"{t['by densities'] / one:.2f}", f"{t['by all'] / one:.2f}"]
        cells += [f"{1e3 * plan:.3g}", f"{t['adjoint'] / plan:.2f}"]
        names = ("torch", "torch by densities", "torch by all")
        cells += [f"{t[name] / one:.2f}" if name in t else "" for name in names]
        print(f"| {kernel} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", default="OpenMP", help="execution space (OpenMP)")
    parser.add_argument("--points", type=int, default=50_000, help="targets, and sources (50000)")
    parser.add_argument("--tolerance", type=float, default=1e-6, help="of the sums timed (1e-6)")
    parser.add_argument("--periodicity", type=int, default=3, help="of the sums timed (3)")
    parser.add_argument("--no-checks", action="store_true", help="measure times only")
    given = parser.parse_args()
    space = parki.get_execution_space(given.space)
    start = time.perf_counter()
    print(f"parki {parki.__version__}, {space}, {platform.processor() or platform.machine()}\n")
    if not given.no_checks:
        good = check_parki(space)
        print(f"\n{'all as they should be' if good else 'ERRORS ARE TOO LARGE'}\n")
        print(check_torch(space))
        print(f"{check_jax(space)}\n", flush=True)
        print(f"checks took {time.perf_counter() - start:.0f} s\n")
    print(
        f"{given.points} targets and sources, {given.periodicity}-periodic, tolerance "
        f"{given.tolerance:g}, float64; derivatives over the sum of the same kind\n"
    )
    timing(space, given.points, given.tolerance, given.periodicity)
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
