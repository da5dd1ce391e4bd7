"""The embedded executor on the host: a shared object, one call by ctypes.

This executor serves the spaces OpenMP and Serial. It takes kernels that came compiled with parki if
there are any. For others it finds the compiler, chooses flags that vectorise without changing the
floating-point state of the user's process, and keeps objects in the compile cache. The cache also
records the compiler, so that a machine without one can use the objects. Threads are parki's own
(`threads.cpp`), and objects need the C library alone, not OpenMP or the C++ library.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parki.errors import KernelError, ParkiValueError, UnavailableError
from parki.runtime import cache, private, shipped, zig
from parki.runtime.messages import notice, overdue
from parki.runtime.translate import Translated
from parki.settings import cache_directory, checked_setting, cores, split_command, thread_count

PRELUDE = Path(__file__).with_name("host.hpp")
THREADS = Path(__file__).with_name("threads.cpp")
# How often an idle thread looks for work before it sleeps, 0.2 to 0.6 ms in all; the kernels of one
# stage follow each other faster.
SPINS = 10_000
# Never -ffast-math: an object linked with it sets flush-to-zero for the whole process. Sums are
# reordered only where the translator says so (omp simd), so differences of positions stay exact.
FLAGS = (
    "-std=c++17 -O3 -fPIC -shared -fno-math-errno -fno-trapping-math -fno-signed-zeros "
    "-ffp-contract=fast -fno-plt -fvisibility=hidden -fno-exceptions -fopenmp-simd -pthread"
).split()


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its command in words, and the first line of its ``--version``.

    A compiler that is not ``here`` is known from the cache, which holds its objects.
    """

    command: tuple[str, ...]
    version: str
    here: bool = True

    @property
    def path(self) -> str:
        """The command as one string."""
        return shlex.join(self.command)


@functools.lru_cache(maxsize=8)
def _find(chosen: str, _search_path: str) -> Compiler:
    why, usual = "", (["g++"], ["clang++"], ["c++"], zig.command())
    # CXX may be "ccache g++", or contain flags.
    for program, *words in [split_command(chosen)] if chosen else filter(None, usual):
        path = shutil.which(program)
        if path:
            # Not relative, as the working folder may be another one when it compiles.
            command = (os.path.abspath(path), *words)
            version, failure = _run([*command, "--version"])
            if not failure:
                compiler = Compiler(command, version.partition("\n")[0])
                if chosen:
                    _refuse_c(chosen, compiler)
                return compiler
            why = f" ({failure.splitlines()[-1]})"
    problem = "no C++ compiler was found"
    if chosen:
        problem = f"CXX is {chosen!r}, which cannot be run{why}"
    if chosen and "/" in program and words:  # perhaps the first part of a path
        problem += "; a path with blanks needs quotes of its own: CXX='\"/my tools/c++\"'"
    raise UnavailableError(
        f"{problem}; parki compiles its CPU kernels once, on first use. Install one: "
        "'apt install g++' (Debian, Ubuntu), 'dnf install gcc-c++' (Fedora), "
        "'xcode-select --install' (macOS), 'pip install ziglang' (any system), or set CXX"
    )


def _refuse_c(chosen: str, compiler: Compiler) -> None:
    """Refuse a compiler of C only, which links no mathematical functions and no C++ library."""
    plain = "int main(int n, char** words) { "
    if _builds(compiler, ("-std=c++17",), plain + "if (n > 1) throw n; }\n"):
        return
    if _builds(compiler, ("-x", "c"), plain + "return 0; }\n"):
        raise ParkiValueError(
            f"CXX is {chosen!r}, a C compiler: it builds programs of C, but none of C++; set CXX "
            "to the C++ compiler that belongs to it (g++ to gcc, clang++ to clang, icpx to icx), "
            "or unset it"
        )


def compiler() -> Compiler:
    """Return the C++ compiler: ``$CXX``, g++, clang++ or c++; the error names packages with one."""
    return _find(checked_setting("CXX"), os.environ.get("PATH", ""))


def why_none() -> str:
    """Return '' if there is a C++ compiler, else the message of `compiler`."""
    try:
        compiler()
    except UnavailableError as error:
        return str(error)
    return ""


def compilers() -> list[Compiler]:
    """Return the C++ compiler or, if there is none, the compilers of the cache's objects."""
    reason = why_none()
    if not reason:
        return [compiler()]
    known = [json.loads(content) for content in cache.contents(".compiler")]
    here = [checked_setting("CXX"), cache.key(_machine())]
    compilers = [Compiler(tuple(c), v, here=False) for *where, c, v in known if where == here]
    if known and not compilers:
        reason += (
            f"; the kernels in {cache_directory()} do not serve here, as they were compiled for "
            "another processor, or with another value of CXX"
        )
    if not compilers:
        raise UnavailableError(reason)
    return compilers


def _record(compiler: Compiler) -> None:
    """Record the compiler in the cache, for `compilers` on machines without it."""
    if compiler.here:
        where = checked_setting("CXX"), cache.key(_machine())
        content = json.dumps([*where, compiler.command, compiler.version])
        if not cache.exists(cache.key(content), ".compiler"):
            cache.keep(cache.key(content), content.encode(), ".compiler")


def check_compiler() -> None:
    """Raise if no kernels can run: none came compiled or are cached, and there is no compiler."""
    if not shipped.usable():
        compilers()


def _builds(chosen: Compiler, flags: tuple[str, ...], text: str) -> bool:
    return _builds_in(cache_directory(), chosen, flags, text)


@functools.lru_cache(maxsize=16)
def _builds_in(_folder: Path, chosen: Compiler, flags: tuple[str, ...], text: str) -> bool:
    name = cache.key("builds", chosen.path, chosen.version, *flags, text)
    if cache.exists(name):
        return True
    if not chosen.here:
        return False
    try:
        cache.entry(name, lambda: _compile(chosen, [*flags], text), cache.plain)
    except KernelError:
        return False
    return True


def _own_flags(chosen: Compiler) -> list[str]:
    """Return the flags that this compiler takes for this machine: all at once, or one by one."""
    # Else g++ fuses rows of a grid, which it then gathers; and the library of C++ is linked.
    flags = ["-fno-loop-unroll-and-jam"] * (not zig.is_zig(chosen.command)) + ["-Wl,--as-needed"]
    wide, native = ["-mprefer-vector-width=512"], ["-march=native"]
    if every := _taken(chosen, [*flags, *native, *wide]):
        return every
    native = _taken(chosen, native) or _taken(chosen, ["-mcpu=native"])
    native = _taken(chosen, [*native, *wide]) or native
    return [word for flag in flags for word in _taken(chosen, [flag])] + native


def _taken(chosen: Compiler, flags: list[str]) -> list[str]:
    """Return the flags if the compiler takes them together, else none."""
    return [*flags] if _builds(chosen, (*FLAGS, *flags), "int f() { return 0; }\n") else []


@functools.lru_cache(maxsize=1)
def _machine() -> str:
    """Return the meaning of 'native' here, as different machines may use the same cache."""
    parts = [platform.machine(), platform.system()]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        wanted = ("model name", "flags", "Features", "CPU part")
        parts += sorted({line for line in lines if line.startswith(wanted)})
    except OSError:
        parts += [os.environ.get("PROCESSOR_IDENTIFIER", ""), *sorted(shipped.features())]
    return "\n".join(parts)


def _compile(chosen: Compiler, flags: list[str], text: str) -> bytes:
    """Return the library of a source; b'' if there is none, though the compiler says no error."""
    if not chosen.here:  # and the cached object has been removed
        raise UnavailableError(why_none())
    try:
        with private.temporary_folder() as folder:
            source, target = folder / "kernel.cpp", folder / "kernel.so"
            source.write_text(text, encoding="utf-8")
            _, failure = _run([*chosen.command, *flags, str(source), "-o", str(target)])
            if failure:
                raise KernelError(f"{chosen.path} failed on a kernel:\n{failure}")
            return target.read_bytes() if target.exists() else b""
    except OSError as error:
        raise UnavailableError(
            f"the compiler needs a temporary folder, which cannot be used ({error}); set TMPDIR to "
            "a folder that can be written and has room"
        ) from error


def _run(command: Sequence[str]) -> tuple[str, str]:
    """Run a compiler; return what it writes, and '' or why it failed."""
    try:
        with overdue(f"the compiler {command[0]} is at work; interrupt the program if it hangs"):
            run = subprocess.run(
                command,
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                errors="replace",
            )
    except OSError as error:  # as for a script whose first line does not say what runs it
        return "", str(error)
    said, code = run.stderr[-2000:].strip(), run.returncode
    if code < 0:
        said = f"{said}\nit was ended by signal {-code} ({signal.strsignal(-code)})".strip()
    return run.stdout, (said or f"it ended with {code}, and wrote nothing") if code else ""


def source_text(translated: Translated) -> str:
    """Return the complete source of a workunit for the host."""
    return PRELUDE.read_text(encoding="utf-8") + translated.text


@functools.lru_cache(maxsize=1)
def _launcher() -> Any:
    """Return the entry of `THREADS`: one for the process, whose kernels share its threads."""
    entry = HostObject("threads", THREADS.read_text(encoding="utf-8")).entry()
    entry.argtypes = (
        *(ctypes.c_int, ctypes.c_void_p),  # spins, and the entry of a kernel
        *(ctypes.c_char_p, ctypes.c_longlong, ctypes.c_int),  # slots, count, threads
    )
    entry.restype = ctypes.c_int
    return entry


def _spins() -> int:
    """Return `SPINS`, or 0 where idle threads should leave the cores to others at once."""
    passive = checked_setting("OMP_WAIT_POLICY").lower() == "passive"
    return 0 if passive or thread_count() > cores() else SPINS


class HostObject:
    """One source for the host, from those that came compiled with parki or compiled by `entry`.

    A ``serial`` object is for one thread at a time, and needs no atomic additions.
    """

    def __init__(self, name: str, source: str, serial: bool = False, team_size: int = 1) -> None:
        self.source = source
        self.shipped = shipped.find(self.source)
        if self.shipped is not None:
            return
        try:
            installed = compilers()
        except UnavailableError as error:
            if not shipped.usable():
                raise
            raise UnavailableError(
                f"the kernel {name} is needed in a form that did not come compiled with parki, as "
                f"those of the usual variants did; {error}"
            ) from None
        for self.compiler in installed:
            self.flags = [*FLAGS, *_own_flags(self.compiler), f"-DPK_TEAM={team_size}"]
            self.flags += ["-DPK_SERIAL"] if serial else []
            # An object for 'native' is only loaded on machines of the same kind.
            identity = (self.compiler.path, self.compiler.version, _machine())
            self.key = cache.key("host", *identity, *self.flags, self.source)
            if self.compiler.here or cache.exists(self.key):
                return
        raise UnavailableError(
            f"the kernel {name} is not among those in {cache_directory()}; {why_none()}"
        )

    def cached(self) -> bool:
        """Return whether `entry` needs no compilation."""
        return self.shipped is not None or cache.exists(self.key)

    def load(self) -> Callable[[bytes, int, int], int]:
        """Return ``launch(slots, count, threads)``, compiling first if needed; see `host.hpp`."""
        return functools.partial(_launcher(), _spins(), ctypes.cast(self.entry(), ctypes.c_void_p))

    def entry(self) -> Any:
        """Return the entry point, compiling first if needed."""
        if self.shipped is not None:
            return self.shipped
        if zig.is_zig(self.compiler.command) and not self.cached():
            notice(zig.FIRST_USE)
        compiled = functools.partial(_compile, self.compiler, self.flags, self.source)
        entry = cache.entry(self.key, compiled, self._loaded)
        _record(self.compiler)
        return entry

    def _loaded(self, content: bytes, path: Path) -> Any:
        """Return the entry point of a library."""
        try:
            return private.load(content, path).parki_entry
        except (AttributeError, OSError) as error:
            raise KernelError(
                f"a compiled kernel cannot be loaded ({error}): {self.compiler.path} wrote "
                f"{len(content)} bytes without an error; repair it, or set CXX to another one. If "
                "programs may not run from the folder of temporary files, set TMPDIR to another one"
            ) from error
