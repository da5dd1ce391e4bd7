"""Execution spaces, named as Kokkos names them, found at run time.

``OpenMP`` and ``Serial`` run on the host, and need a C++ compiler or kernels that came compiled;
``Cuda`` and ``HIP`` run on a device and need CuPy. Each space has an adapter for the differences:
the module `host` or `cupy` of this package. The package is independent of kernels.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from parki.errors import MissingPackageError, ParkiTypeError, ParkiValueError, UnavailableError
from parki.runtime.forks import cached_property
from parki.runtime.spaces import cupy, host
from parki.settings import kept, thread_count

_ALIASES = {
    "openmp": "OpenMP",
    "cpu": "OpenMP",
    "omp": "OpenMP",
    "threads": "OpenMP",
    "serial": "Serial",
    "cuda": "Cuda",
    "hip": "HIP",
    "rocm": "HIP",
    "gpu": "GPU",
}
_ADAPTERS = {"OpenMP": host, "Serial": host, "Cuda": cupy, "HIP": cupy}
SPACES = tuple(_ADAPTERS)
LITTLE = 2.0**24  # bytes for which nobody asks how much memory is free, as that takes time


@dataclass(frozen=True)
class ExecutionSpace:
    """Where kernels run: ``name`` is OpenMP, Serial, Cuda or HIP."""

    name: str

    @cached_property
    def on_device(self) -> bool:
        """Whether arrays of this space live in device memory (CuPy) rather than on the host."""
        return self.adapter is cupy

    @cached_property
    def adapter(self) -> ModuleType:
        """The space's module for arrays, streams, events, memory and libraries."""
        return _ADAPTERS[self.name]

    @cached_property
    def array_module(self) -> ModuleType:
        """The array module of this space: numpy or cupy."""
        module: ModuleType = self.adapter.array_module()
        return module

    @property
    def threads(self) -> int:
        """Threads of the CPU that run kernels: see `thread_count`; 1 in Serial and on a device."""
        return thread_count() if self.name == "OpenMP" else 1

    def __reduce__(self) -> Any:
        return type(self), (self.name,)  # without the modules, which cannot be pickled

    def __str__(self) -> str:
        return self.name


def _device_name(name: str = "GPU") -> str:
    """Return the space of this CuPy; without CuPy, the error depends on the space asked for."""
    try:
        return "HIP" if cupy.array_module().cuda.runtime.is_hip else "Cuda"
    except MissingPackageError as error:
        if name != "HIP":
            raise
        raise MissingPackageError(
            f"{cupy.NOT_INSTALLED}; an AMD GPU needs a CuPy that is built for ROCm, as "
            "docs/gpu.md says under AMD"
        ) from error


def why_unavailable(name: str) -> str:
    """Return '' if a space can be used, else the reason why not."""
    from parki.runtime import host as compiler

    try:
        if name in ("Cuda", "HIP"):
            device = _device_name(name)
            return "" if device == name else f"CuPy here is built for {device}"
        compiler.check_compiler()
    except (ParkiValueError, UnavailableError) as error:  # includes an invalid setting
        return str(error)
    return ""


def get_execution_space(space: str | ExecutionSpace | None = None, *arrays: Any) -> ExecutionSpace:
    """Return the execution space of a name, or the one that fits the arrays.

    Parameters
    ----------
    space : str, ExecutionSpace or None
        Kokkos's spelling in any case (``OpenMP``, ``Serial``, ``Cuda``, ``HIP``), or the usual
        other names ``CPU``, ``Threads``, ``GPU``, ``CUDA``, ``ROCm``. None follows the arrays: a
        device space when one of them lives on a device, else OpenMP.

    Raises
    ------
    ParkiValueError
        If the name is unknown.
    UnavailableError
        If the space cannot be used on this machine, with the remedy.
    """
    if space is None:
        on_device = any(hasattr(a, "__cuda_array_interface__") for a in arrays)
        space = "GPU" if on_device else "CPU"
    return _usable(space_name(space))


def space_name(space: Any) -> str:
    """Return Kokkos's spelling of a space, or "GPU"; refuse what is no name, and look no further.

    Raises
    ------
    ParkiTypeError, ParkiValueError
    """
    if isinstance(space, ExecutionSpace):
        return space.name
    if not isinstance(space, str):
        raise ParkiTypeError(
            f"execution_space is a {type(space).__name__}; expected a name such as 'OpenMP'"
        )
    name = _ALIASES.get(space.strip().lower(), "")
    if not name:
        raise ParkiValueError(
            f"execution_space is {space!r}; expected OpenMP, Serial, Cuda or HIP (or CPU, GPU)"
        )
    return name


@functools.lru_cache(maxsize=8)
def _usable(name: str) -> ExecutionSpace:
    if name == "GPU":
        name = _device_name()
    if name in ("Cuda", "HIP"):
        if _device_name(name) != name:
            raise UnavailableError(f"execution space {name} is not here: {why_unavailable(name)}")
        return ExecutionSpace(name)
    from parki.runtime import host as compiler

    compiler.check_compiler()
    return ExecutionSpace(name)


def available_spaces() -> list[str]:
    """Return the names of the execution spaces that can be used on this machine."""
    return [n for n in SPACES if not why_unavailable(n)]


@kept
def refuse_capture() -> None:
    """Refuse to go on while the current stream of CuPy, or of PyTorch, is captured.

    A call waits for the device once, to learn whether its input is finite, and it may allocate.
    CUDA permits neither: it ends the capture, and memory allocated for it is never freed.
    """
    if cupy.capturing():
        raise UnavailableError(
            "parki was called while the current stream is captured into a CUDA graph, which waits "
            "for the device and so cannot be captured; call it before or after the capture: a plan "
            "launches graphs of its own from the third application on"
        )


def free_memory(space: ExecutionSpace) -> float:
    """Return the bytes that can be allocated; infinity if unknown."""
    return float(space.adapter.free_memory())


def adapter_of(array_module: Any) -> ModuleType:
    """Return the adapter for numpy or cupy."""
    return host if array_module is host.array_module() else cupy
