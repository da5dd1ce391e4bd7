"""The embedded executor on a device: CUDA through NVRTC, HIP through hipRTC, both by CuPy.

CuPy compiles, caches (``CUPY_CACHE_DIR``) and launches on its current stream; nothing here
synchronises. `compile_offline` builds for an architecture that is not present, for tests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from parki.errors import KernelError
from parki.runtime.spaces import ExecutionSpace
from parki.runtime.translate import Translated

PRELUDE = Path(__file__).with_name("device.hpp")
RANGE_BLOCK = 128
OPTIONS = ("-std=c++17", "-default-device")


def source_text(translated: Translated) -> str:
    """Return the complete device source of a workunit."""
    return PRELUDE.read_text(encoding="utf-8") + translated.text


class DeviceObject:
    """One workunit compiled for the current device."""

    def __init__(
        self, translated: Translated, space: ExecutionSpace, team_size: int, vector_length: int
    ) -> None:
        self.translated = translated
        self.space = space
        self.block = (vector_length, team_size) if translated.team else (RANGE_BLOCK,)

    def cached(self) -> bool:
        """Return False: CuPy does not say whether its cache holds a kernel."""
        return False

    def load(self) -> Callable[[list[Any], int], None]:
        """Return ``launch(arguments, count)``, compiling first if CuPy's cache lacks the kernel.

        Raises
        ------
        KernelError
            If the compiler refuses the kernel.
        """
        cupy = self.space.array_module
        hip = self.space.name == "HIP"
        options = ("-std=c++17", "-D__HIP_PLATFORM_AMD__") if hip else OPTIONS
        try:
            module = cupy.RawModule(code=source_text(self.translated), options=options)
            kernel = module.get_function("parki_launch")
        except Exception as error:  # NVRTC and driver errors have types of CuPy's own
            raise KernelError(f"{self.space} refused a kernel: {error}") from error
        scratch = self.translated.scratch
        if scratch > 48 * 1024:
            kernel.max_dynamic_shared_size_bytes = scratch
        block, team = self.block, self.translated.team

        def launch(arguments: list[Any], count: int) -> None:
            blocks = count if team else (count + RANGE_BLOCK - 1) // RANGE_BLOCK
            kernel((blocks,), block, (*arguments, count), shared_mem=scratch)

        return launch


def compile_offline(translated: Translated, architecture: str) -> bytes:
    """Compile with NVRTC from PyPI (cuda-bindings) for e.g. ``sm_90``, without a GPU.

    Raises
    ------
    KernelError
        With NVRTC's log, if the kernel does not compile.
    """
    from cuda.bindings import nvrtc

    error, program = nvrtc.nvrtcCreateProgram(
        source_text(translated).encode(), b"kernel.cu", 0, None, None
    )
    options = [b"-arch=" + architecture.encode(), *(o.encode() for o in OPTIONS)]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise KernelError(f"NVRTC refused a kernel for {architecture}:\n{log.decode()[:3000]}")
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    binary = bytes(size)
    nvrtc.nvrtcGetCUBIN(program, binary)
    return binary
