"""The embedded executor on a device: CUDA through NVRTC, HIP through hipRTC, both by CuPy.

CuPy compiles, caches (``CUPY_CACHE_DIR``) and launches on its current stream. This module never
synchronises.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parki.errors import KernelError
from parki.runtime.spaces import ExecutionSpace
from parki.runtime.translate import Translated

PRELUDE = Path(__file__).with_name("device.hpp")
RANGE_BLOCK = 128
OPTIONS = ("-std=c++17", "-default-device")
HIP_OPTIONS = ("-std=c++17", "-D__HIP_PLATFORM_AMD__")


@functools.cache
def _prelude() -> str:
    return PRELUDE.read_text(encoding="utf-8")


def source_text(translated: Translated, name: str = "parki_launch") -> str:
    """Return the complete device source of a workunit, and name its kernel.

    An option of the compiler would cost a start 20 ms for each kernel, because CuPy asks NVRTC
    about itself for each set of options.
    """
    return f"#define parki_launch {name}\n{_prelude()}{translated.text}"


class DeviceObject:
    """One workunit compiled for the current device."""

    def __init__(
        self,
        name: str,
        translated: Translated,
        space: ExecutionSpace,
        team_size: int,
        vector_length: int,
    ) -> None:
        self.name = f"parki_{name}"  # by which profilers show it
        self.translated = translated
        self.space = space
        self.block = (vector_length, team_size) if translated.team else (RANGE_BLOCK,)

    def cached(self) -> bool:
        """Return False, because CuPy does not say whether its cache holds a kernel."""
        return False

    def load(self) -> Callable[[list[Any], int], None]:
        """Return ``launch(arguments, count)``, compiling first if CuPy's cache lacks the kernel."""
        cupy = self.space.array_module
        options = HIP_OPTIONS if self.space.name == "HIP" else OPTIONS
        try:
            code = source_text(self.translated, self.name)
            module = cupy.RawModule(code=code, options=options)
            kernel = module.get_function(self.name)
        except Exception as error:  # CuPy has its own types for NVRTC and driver errors
            raise KernelError(f"{self.space} refused a kernel: {error}") from error
        scratch = self.translated.scratch
        if scratch > 48 * 1024:
            kernel.max_dynamic_shared_size_bytes = scratch
        block, team = self.block, self.translated.team

        def launch(arguments: list[Any], count: int) -> None:
            blocks = count if team else (count + RANGE_BLOCK - 1) // RANGE_BLOCK
            kernel((blocks,), block, (*arguments, count), shared_mem=scratch)

        return launch
