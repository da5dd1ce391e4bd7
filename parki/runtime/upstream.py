"""The executor `pykokkos`: the specialised file run by upstream PyKokkos, not by parki's compiler.

Keeps the file, and what upstream compiles from it, in parki's cache folder, and launches through
``pk.parallel_for``. Tested with Kokkos 4.6.01, pykokkos-base f43550dc and pykokkos b42c805c on OpenMP
and Serial; Cuda and HIP take the same path with CuPy arrays, but have never been run. The threads are
Kokkos's (``OMP_NUM_THREADS`` when PyKokkos is imported). ``import parki`` does not import PyKokkos.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import os
import shutil
import sysconfig
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from parki.errors import KernelError, UnavailableError
from parki.runtime import cache, host
from parki.runtime.spaces import ExecutionSpace
from parki.runtime.specialise import Specialised
from parki.runtime.translate import SIZES, Translated, View
from parki.settings import cache_directory

# Kokkos aligns each scratch view by rules of its own: room for the difference from our layout.
SCRATCH_MARGIN = 512
# Upstream keeps its state in module globals, and so does the redirection of its printed errors.
_LOCK = threading.RLock()


@functools.lru_cache(maxsize=1)
def pykokkos() -> Any:
    """Return the package PyKokkos, imported when first asked for.

    Raises
    ------
    UnavailableError
        If it cannot be imported, with what to do.
    """
    try:
        import pykokkos.kokkos_manager
    except Exception as error:  # CuPy without a driver raises a type of its own
        raise UnavailableError(
            f"executor is 'pykokkos', but importing PyKokkos fails ({error}); install it from "
            "https://github.com/kokkos/pykokkos (it is not on PyPI; where there is no GPU, remove "
            "CuPy), or choose the executor 'embedded', which needs only a C++ compiler"
        ) from error
    return pykokkos


class UpstreamObject:
    """One workunit run by upstream PyKokkos.

    Raises
    ------
    UnavailableError
        If PyKokkos cannot be imported, or was built without the space.
    """

    def __init__(
        self,
        workunit: Specialised,
        translated: Translated,
        space: ExecutionSpace,
        team_size: int,
        vector_length: int,
    ) -> None:
        self.pk = pykokkos()
        self.space = getattr(self.pk, space.name)
        built = self.pk.kokkos_manager.get_available_execution_spaces()
        if self.space not in built:
            names = ", ".join(s.value for s in built)
            raise UnavailableError(f"PyKokkos here is built without {space}; it has {names}")
        self.name = workunit.name
        self.arguments = translated.arguments
        self.team = (team_size, vector_length) if translated.team else None
        self.device = space.array_module if space.on_device else None
        self.xp = space.array_module
        self.text = workunit.text
        if translated.scratch:
            # Upstream asks this function for the size; its set_scratch_size does nothing.
            self.text += (
                "\n\n@pk.function\ndef team_shmem_size(team_size: int) -> int:\n"
                f"    return {translated.scratch + SCRATCH_MARGIN}\n"
            )
        # Upstream's cache knows neither source nor machine: each key gets a folder of its own.
        self.key = cache.key(
            "pykokkos",
            self.text,
            space.name,
            str(self.pk.__file__),
            os.environ.get("PK_KOKKOS_LIB_PATH", ""),
            str(sysconfig.get_config_var("EXT_SUFFIX")),
            host._machine(),
        )
        self.folder = cache_directory() / "pykokkos" / self.key
        self.file = self.folder / f"{workunit.name}_{workunit.digest}.py"

    def cached(self) -> bool:
        """Return whether `load` will find the kernel compiled."""
        return cache.exists(self.key, ".pykokkos")

    def load(self) -> Callable[[list[Any], int], None]:
        """Return ``launch(arguments, count)``, letting upstream compile first if needed.

        Raises
        ------
        KernelError
            If upstream refuses or fails to compile the kernel, with what it printed.
        """
        entry: list[Callable[..., None]] = []

        def build(stamp: Path) -> None:
            # Without the stamp the folder is what a killed or failed compilation left, and
            # upstream would take it for a finished one.
            self._forget()
            self.folder.mkdir(parents=True)
            self.file.write_text(self.text, encoding="utf-8")
            try:
                entry.append(self._import())
            except KernelError:
                self._forget()
                raise
            stamp.write_text(self.name, encoding="utf-8")

        cache.entry(self.key, build, ".pykokkos")
        return functools.partial(self._launch, entry[0] if entry else self._import())

    def _import(self) -> Callable[..., None]:
        """Import the file and launch it over nothing, which makes upstream compile or load it."""
        with self._guarded():
            spec = importlib.util.spec_from_file_location(self.file.stem, self.file)
            if spec is None or spec.loader is None:
                raise ImportError(f"cannot import {self.file}")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            workunit: Callable[..., None] = getattr(module, self.name)
        values = []
        for _, kind in self.arguments:
            if isinstance(kind, View):
                dtype = ("i" if "int" in kind.element else "f") + str(SIZES[kind.element])
                values.append(self.xp.zeros((2,) * kind.rank, dtype=dtype))
            else:
                values.append(0.0 if kind in ("pk.float", "pk.double") else 0)
        self._launch(workunit, values, 0)
        return workunit

    def _launch(self, workunit: Callable[..., None], values: list[Any], count: int) -> None:
        pk = self.pk
        named = {}
        for (name, kind), value in zip(self.arguments, values, strict=True):
            # Upstream reads the layout off the flags, which for one row or column say both.
            named[name] = pk.array(value, layout=pk.LayoutRight) if isinstance(kind, View) else value
        with self._guarded():
            # Kokkos launches on its own stream; CuPy's must be done before, and wait after.
            if self.device:
                self.device.cuda.Device().synchronize()
            if self.team:
                policy = pk.TeamPolicy(self.space, count, *self.team)
            else:
                policy = pk.RangePolicy(self.space, 0, count)
            pk.parallel_for(policy, workunit, **named)
            if self.device:
                self.device.cuda.Device().synchronize()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn upstream's errors into `KernelError`, and point its cache at our folder meanwhile."""
        from pykokkos.core import module_setup

        setup = module_setup.ModuleSetup
        output = io.StringIO()
        with _LOCK:
            before = module_setup.BASE_DIR, setup.get_main_path
            # Upstream's own are ./pk_cpp and the path of __main__: each script would compile anew.
            module_setup.BASE_DIR, setup.get_main_path = str(self.folder), lambda _: Path("built")
            try:
                with contextlib.redirect_stdout(output):
                    yield
            except (SystemExit, Exception) as error:  # upstream prints its errors, then exits
                raise KernelError(
                    f"upstream PyKokkos failed on {self.name} ({type(error).__name__}: {error}):\n"
                    + output.getvalue()[-2000:]
                ) from error
            finally:
                module_setup.BASE_DIR, setup.get_main_path = before

    def _forget(self) -> None:
        """Remove the folder, and what upstream remembers of it."""
        from pykokkos.runtime import runtime_singleton

        known = runtime_singleton.runtime.compiler.is_compiled_cache
        for path in [p for p in known if self.folder in Path(p).parents]:
            del known[path]
        shutil.rmtree(self.folder, ignore_errors=True)
