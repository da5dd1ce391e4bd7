"""Execution spaces, named as Kokkos names them, found at run time.

``OpenMP`` and ``Serial`` run on the host, and need a C++ compiler, or kernels that came compiled;
``Cuda`` and ``HIP`` run on a device and need CuPy. Knows which array module and which memory a
space works with; knows nothing of kernels.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from parki.errors import ParkiTypeError, ParkiValueError, UnavailableError

log = logging.getLogger("parki")

_ALIASES = {
    "openmp": "OpenMP",
    "cpu": "OpenMP",
    "omp": "OpenMP",
    "serial": "Serial",
    "cuda": "Cuda",
    "hip": "HIP",
    "rocm": "HIP",
    "gpu": "GPU",
}


@dataclass(frozen=True)
class ExecutionSpace:
    """Where kernels run: ``name`` is OpenMP, Serial, Cuda or HIP."""

    name: str

    @property
    def on_device(self) -> bool:
        """Whether arrays of this space live in device memory (CuPy) rather than on the host."""
        return self.name in ("Cuda", "HIP")

    @property
    def array_module(self) -> ModuleType:
        """The array module of this space: numpy or cupy."""
        return _cupy() if self.on_device else np

    def __str__(self) -> str:
        return self.name


@functools.lru_cache(maxsize=1)
def _cupy() -> ModuleType:
    """Import CuPy, or say what is missing."""
    try:
        import cupy
    except ImportError as error:
        raise UnavailableError(
            "CuPy is not installed, so there is no GPU space; install it with "
            "'pip install parki[cuda12]' or 'parki[cuda13]', to match your driver, "
            "or pass NumPy arrays to run on the CPU"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy raises its own runtime error type, built at import
        raise UnavailableError(
            f"CuPy is installed, but finds no usable GPU driver: {error}"
        ) from error
    if count < 1:
        raise UnavailableError("CuPy is installed, but there is no GPU")
    module: ModuleType = cupy
    return module


def _device_name() -> str:
    return "HIP" if _cupy().cuda.runtime.is_hip else "Cuda"


def why_unavailable(name: str) -> str:
    """Return '' when a space can be used, else the reason why it cannot."""
    from parki.runtime import host

    try:
        if name in ("Cuda", "HIP"):
            found = _device_name()
            return "" if found == name else f"CuPy here is built for {found}"
        host.check()
        if name == "OpenMP" and not host.has_openmp():
            return "the C++ compiler has no OpenMP"
    except ParkiValueError as error:  # also for a setting that is wrong
        return str(error)
    return ""


def get_execution_space(space: str | ExecutionSpace | None = None, *arrays: Any) -> ExecutionSpace:
    """Return the execution space for a name, or the one that fits the arrays.

    Parameters
    ----------
    space : str, ExecutionSpace or None
        Kokkos's spelling in any case (``OpenMP``, ``Serial``, ``Cuda``, ``HIP``), or the usual
        other names ``CPU``, ``GPU``, ``CUDA``, ``ROCm``. None follows the arrays: a device space
        when one of them lives on a device, else OpenMP (Serial where the compiler lacks OpenMP).

    Raises
    ------
    UnavailableError
        If the name is unknown, or the space cannot be used on this machine, with the remedy.
    """
    if isinstance(space, ExecutionSpace):
        space = space.name
    if space is None:
        on_device = any(hasattr(a, "__cuda_array_interface__") for a in arrays)
        space = "GPU" if on_device else "CPU"
    if not isinstance(space, str):
        raise ParkiTypeError(
            f"execution_space is a {type(space).__name__}; expected a name such as 'OpenMP'"
        )
    name = _ALIASES.get(space.strip().lower(), "")
    if not name:
        raise UnavailableError(
            f"execution_space is {space!r}; expected OpenMP, Serial, Cuda or HIP (or CPU, GPU)"
        )
    return _usable(name)


@functools.lru_cache(maxsize=8)
def _usable(name: str) -> ExecutionSpace:
    if name == "GPU":
        name = _device_name()
    if name in ("Cuda", "HIP"):
        if _device_name() != name:
            raise UnavailableError(f"execution space {name} is not here: {why_unavailable(name)}")
        return ExecutionSpace(name)
    from parki.runtime import host

    host.check()
    if name == "OpenMP" and not host.has_openmp():
        log.warning(
            "parki: the C++ compiler %s has no OpenMP, so kernels run in one thread (Serial); "
            "on macOS 'brew install libomp' or g++ brings it",
            host.compilers()[0].path,
        )
        name = "Serial"
    return ExecutionSpace(name)


def available_spaces() -> list[str]:
    """Return the names of the execution spaces that can be used on this machine."""
    return [n for n in ("OpenMP", "Serial", "Cuda", "HIP") if not why_unavailable(n)]
