"""parki's sums as primitives of JAX.

Concrete arrays go to parki directly. For traced arrays XLA calls parki, which reads and writes the
buffers of XLA, on XLA's stream.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.experimental.buffer_callback import buffer_callback
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.sharding import PartitionSpec

from parki.core import SUMS, LinearMap, SumRequest
from parki.errors import ParkiTypeError, ParkiValueError
from parki.interchange import of_memory
from parki.jax.arrays import (
    SumCall,
    density_shape,
    points_of,
    run_linear,
    run_pull,
    run_push,
    run_sum,
)
from parki.runtime import get_execution_space
from parki.runtime.spaces import adapter_of
from parki.typing import AnyArray

Shape = tuple[int, ...]


def _callback(run: Any, many: bool, on_device: bool) -> Any:
    """Return the function that XLA calls; it reads and writes XLA's buffers."""

    def call(context: Any, out: AnyArray, *buffers: Any) -> None:
        with ExitStack() as stack:
            xp: Any = np
            take: Any = np.asarray
            if on_device:
                xp = get_execution_space("GPU").array_module
                device = xp.asarray(buffers[0]).device
                stack.enter_context(device)
                stack.enter_context(xp.cuda.ExternalStream(context.stream))
                take = partial(of_memory, xp=xp, device=int(device.id))
            results = run(*map(take, buffers))
            copy = adapter_of(xp).copy
            for into, result in zip(*((out, results) if many else ([out], [results])), strict=True):
                copy(take(into), result)

    return call


def _primitive(name: str, run: Any, shapes: Any, many: bool = False) -> Any:
    """Return a primitive that calls parki directly, or through XLA for traced arrays."""
    primitive = Primitive(name)
    primitive.multiple_results = many

    def abstract(*arrays: Any, **params: Any) -> Any:
        results = [_like(arrays[0], shape) for shape in shapes(*arrays, **params)]
        return results if many else results[0]

    def lowered(on_device: bool, *arrays: Any, **params: Any) -> Any:
        dtype = arrays[0].dtype
        results = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes(*arrays, **params)]
        call = _callback(partial(run, **params), many, on_device)
        return buffer_callback(call, results if many else results[0])(*arrays)

    def eager(*arrays: Any, **params: Any) -> Any:
        # Tangents may be NumPy arrays, and others, too, may not be bound to where they are.
        device = _device(arrays, params.get("device"))
        there = [a if _is_there(a, device) else jax.device_put(a, device) for a in arrays]
        if getattr(device, "platform", "cpu") == "cpu":
            return run(*there, **params)
        with get_execution_space("GPU").array_module.cuda.Device(device.local_hardware_id):
            return run(*there, **params)

    primitive.def_impl(eager)
    primitive.def_abstract_eval(abstract)
    for platform in ("cpu", "cuda", "rocm"):
        rule = mlir.lower_fun(partial(lowered, platform != "cpu"), multiple_results=many)
        mlir.register_lowering(primitive, partial(_lowered_here, rule), platform=platform)
    return primitive


def _device(arrays: Any, home: Any = None) -> Any:
    """Return the device of arrays: of those that are bound to one, or else ``home`` if it is given.

    Raises
    ------
    ParkiValueError
        If some are bound to others.
    """
    mine = [a for a in arrays if isinstance(a, jax.Array) and not a.is_deleted()]
    devices = [a.device for a in mine if a.committed]
    devices = devices or ([home] if home else [a.device for a in mine]) or [None]
    other = next((device for device in devices if device != devices[0]), None)
    if other is not None and any(a.committed for a in mine):
        raise ParkiValueError(
            f"arrays are on {devices[0]} and on {other}; move them to one device, such as with "
            "jax.device_put(array, jax.devices()[0])"
        )
    return devices[0]


def _is_there(array: AnyArray, device: Any) -> bool:
    known = isinstance(array, jax.Array)
    return known and (array.is_deleted() or array.device == device)  # which is refused later


def _lowered_here(rule: Any, context: Any, *arrays: Any, **params: Any) -> Any:
    """Lower a primitive by a rule; refuse devices of another process."""
    if getattr(context.module_context.lowering_parameters, "for_export", False):
        raise ParkiTypeError(
            "a function with sums of parki cannot be exported by jax.export: XLA calls them in "
            "this process; export what comes before and after them, or the function that makes "
            "their expected"
        )
    return rule(context, *arrays, **params)


def varying(array: AnyArray) -> frozenset[str]:
    """Return the device-mesh axes over which an array varies within `jax.shard_map`."""
    return frozenset(getattr(getattr(array, "mat", None), "varying", ()))


def _like(array: AnyArray, shape: Shape) -> Any:
    """Return a result's type, with the dtype of an array, varying over the same devices."""
    if not varying(array):
        return ShapedArray(shape, array.dtype)
    whole = array.sharding.update(spec=PartitionSpec(*[None] * len(shape)))
    return array.update(shape=shape, weak_type=False, sharding=whole)


def _sum_shapes(*arrays: Any, call: SumCall, names: tuple[str, ...], **_: Any) -> list[Shape]:
    kernel = call.kernel
    inputs = dict(zip(names, arrays, strict=False))
    targets, sources = (points.shape[-1] for points in points_of(inputs))
    expected = {
        "trg": (3, targets),
        "src": (3, sources),
        "dens": SUMS[kernel].density_shape(sources),
        "norms": (3, sources) if SUMS[kernel].normals else (sources,),  # these are marks
        **({"norms": (targets + sources,)} if SUMS[kernel].quadrupoles else {}),
    }
    if "box" in inputs:
        systems = [len(call.batch.systems[0]) - 1] if call.in_array else []
        expected["box"] = (*systems, 3, 3)[: max(1 + len(systems), inputs["box"].ndim)]
    many: Shape = ()
    for name, array in inputs.items():
        if array.dtype not in (np.float32, np.float64):
            raise ParkiTypeError(
                f"{name} has dtype {array.dtype}; expected float32 or float64 "
                f"(convert with {name}.astype(float))"
            )
        if array.dtype != arrays[0].dtype:
            raise ParkiTypeError(
                f"{name} has dtype {array.dtype}, but {names[0]} has {arrays[0].dtype}; give all "
                "arrays the same dtype"
            )
        shape = array.shape
        if name == "dens":
            many, shape = shape[: -len(expected[name])], shape[-len(expected[name]) :]
        if shape != expected[name]:
            raise ParkiValueError(f"{name} has shape {array.shape}; expected {expected[name]}")
    _refuse(call, inputs)
    return [(*many, *SUMS[kernel].value_shape(targets))]


def _refuse(call: SumCall, arrays: dict[str, AnyArray]) -> None:
    """Refuse what no values of these shapes and types make possible, while JAX traces."""
    options = replace(call.options, execution_space=None)  # which values know
    zeros = {n: np.broadcast_to(np.zeros((), a.dtype), a.shape) for n, a in arrays.items()}
    trg, src = points_of(zeros)
    request = SumRequest.of(call.kernel, "u", options)
    cloud = request.cloud(trg, src, zeros.get("norms"), options, systems=call.batch.systems)
    systems = cloud.systems
    sources = zeros["dens"].shape[-1] if systems is None else int(np.diff(systems.sources).max())
    dtype = options.arithmetic(zeros["trg"].dtype)
    options.random_tolerance(sources, SUMS[call.kernel].source_components, dtype)


def _pull_shapes(
    *arrays: Any, call: SumCall, names: tuple[str, ...], wrt: tuple[str, ...], **_: Any
) -> list[Shape]:
    expected = dict(zip(names, arrays, strict=False))
    shapes = {name: array.shape for name, array in expected.items()}
    shapes["values"] = arrays[-1].shape
    shapes.setdefault("dens", density_shape(call.kernel, expected, arrays[-1]))
    return [shapes[name] for name in wrt]


def _linear_shapes(values: AnyArray, plan: LinearMap, transposed: bool, **_: Any) -> list[Shape]:
    return [plan.result_of(values.shape, transposed)]


SUM = _primitive("parki_sum", run_sum, _sum_shapes)
PUSH = _primitive("parki_push", run_push, _sum_shapes)
PULL = _primitive("parki_pull", run_pull, _pull_shapes, many=True)
LINEAR = _primitive("parki_linear", run_linear, _linear_shapes)
