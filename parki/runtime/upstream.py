"""The executor `pykokkos`: upstream PyKokkos runs the specialised file.

The file is as `specialise` wrote it, plus the size of scratch memory. It is kept in parki's cache
folder with upstream's compiled files, and launched by ``pk.parallel_for``. OpenMP and Serial were
tested with Kokkos 4.6.01, pykokkos-base f43550dc and pykokkos b42c805c; Cuda and HIP take the same
path with CuPy arrays, but have never been run. Kokkos sets the number of threads
(``OMP_NUM_THREADS`` when PyKokkos is imported, which ``import parki`` does not do).
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import shutil
import sysconfig
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from parki.errors import KernelError, MissingPackageError, UnavailableError
from parki.runtime import cache, forks, host, private
from parki.runtime.spaces import ExecutionSpace
from parki.runtime.specialise import Specialised
from parki.runtime.syntax import DTYPES, REALS
from parki.runtime.translate import Translated, View

# Extra bytes, because Kokkos aligns scratch views by other rules than our layout.
SCRATCH_MARGIN = 512
_LOCK = forks.Lock()  # upstream keeps its state in module globals


@functools.lru_cache(maxsize=1)
def pykokkos() -> Any:
    """Import PyKokkos, or raise `MissingPackageError` with the remedy."""
    try:
        import pykokkos.kokkos_manager
    except Exception as error:  # CuPy without a driver raises its own type
        raise MissingPackageError(
            f"executor is 'pykokkos', but importing PyKokkos fails ({error}); install it from "
            "https://github.com/kokkos/pykokkos (it is not on PyPI; where there is no GPU, remove "
            "CuPy), or choose the executor 'embedded', which needs only a C++ compiler"
        ) from error
    return pykokkos


class UpstreamObject:
    """One workunit run by upstream PyKokkos."""

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
            raise UnavailableError(f"PyKokkos here was built without {space}; it has {names}")
        self.name = workunit.name
        self.arguments = translated.arguments
        self.team = (team_size, vector_length) if translated.team else None
        self.xp, self.wait = space.array_module, space.adapter.synchronize
        self.text = workunit.text
        if translated.scratch:
            # Upstream reads the size only from this function; its set_scratch_size does nothing.
            size = translated.scratch + SCRATCH_MARGIN
            self.text += "\n\n@pk.function\ndef team_shmem_size(team_size: int) -> int:\n"
            self.text += f"    return {size}\n"
        # Upstream's cache ignores source and machine, so each key has its own folder.
        self.key = cache.key(
            self.text,
            space.name,
            str(self.pk.__file__),
            os.environ.get("PK_KOKKOS_LIB_PATH", ""),
            str(sysconfig.get_config_var("EXT_SUFFIX")),
            host._machine(),
        )
        self.folder = cache.place(f"pykokkos/{self.key}")
        self.file = self.folder / f"{workunit.name}_{workunit.digest}.py"

    def cached(self) -> bool:
        """Return whether `load` will find the kernel compiled."""
        return self._is_own() and cache.exists(self.key, ".pykokkos")

    def _is_own(self) -> bool:
        """Return whether the file is there, where no other user can change it or those with it."""
        return all(map(private.is_own, (self.folder.parent, self.folder, self.file)))

    def load(self) -> Callable[[list[Any], int], None]:
        """Return ``launch(arguments, count)``, letting upstream compile first if needed."""

        def build() -> bytes:
            # A folder without a stamp comes from a killed compilation; upstream would take it for
            # a finished one.
            self._unload()
            self.folder.parent.mkdir(mode=0o700, exist_ok=True)
            self.folder.mkdir(mode=0o700)
            self.file.touch(mode=0o600)
            self.file.write_text(self.text, encoding="utf-8")
            try:
                self._import()
            except KernelError:
                self._unload()
                raise
            return self.name.encode()

        def use(*_: object) -> Callable[..., None]:
            if not self._is_own():
                raise KernelError(
                    f"{self.folder} cannot be used, because other users may write to it or to "
                    f"{self.folder.parent}; remove both"
                )
            return self._import()

        try:
            work = cache.entry(self.key, build, use, ".pykokkos")
        except OSError as error:
            raise UnavailableError(f"{self.folder} cannot be used: {error}") from error
        return functools.partial(self._launch, work)

    def _import(self) -> Callable[..., None]:
        """Import the file and launch it over no items, so that upstream compiles or loads it."""
        module = ModuleType(self.file.stem)
        with self._guarded():
            SourceFileLoader(module.__name__, str(self.file)).exec_module(module)
        workunit: Callable[..., None] = getattr(module, self.name)
        values: list[Any] = []
        for _, kind in self.arguments:
            if isinstance(kind, View):
                values.append(self.xp.zeros((2,) * kind.rank, dtype=DTYPES[kind.element]))
            else:
                values.append(0.0 if kind in REALS else 0)
        self._launch(workunit, values, 0)
        return workunit

    def _launch(self, workunit: Callable[..., None], values: list[Any], count: int) -> None:
        pk = self.pk
        with self._guarded():
            named = {}
            for (name, kind), value in zip(self.arguments, values, strict=True):
                # Without an explicit layout upstream misreads arrays of one row or one column.
                is_view = isinstance(kind, View)
                named[name] = pk.array(value, layout=pk.LayoutRight) if is_view else value
            if self.team:
                policy = pk.TeamPolicy(self.space, count, *self.team)
            else:
                policy = pk.RangePolicy(self.space, 0, count)
            self.wait()  # Kokkos has its own stream, so CuPy's waits before and after
            pk.parallel_for(policy, workunit, **named)
            self.wait()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Point upstream's cache at our folder, and raise its errors as `KernelError`."""
        from pykokkos.core import module_setup

        setup = module_setup.ModuleSetup
        printed = io.StringIO()
        with _LOCK, contextlib.redirect_stdout(printed):
            before = module_setup.BASE_DIR, setup.get_main_path
            # Upstream's default is ./pk_cpp and the path of __main__, so each script would compile.
            module_setup.BASE_DIR, setup.get_main_path = str(self.folder), lambda _: Path("built")
            try:
                yield
            except (SystemExit, Exception) as error:  # upstream prints its errors, then exits
                raise KernelError(
                    f"upstream PyKokkos failed on {self.name} ({type(error).__name__}: {error}):\n"
                    + printed.getvalue()[-2000:]
                ) from error
            finally:
                module_setup.BASE_DIR, setup.get_main_path = before

    def _unload(self) -> None:
        """Remove the folder, and upstream's record of it."""
        known = self.pk.runtime_singleton.runtime.compiler.is_compiled_cache
        for path in [p for p in known if self.folder in Path(p).parents]:
            del known[path]
        shutil.rmtree(self.folder, ignore_errors=True)
