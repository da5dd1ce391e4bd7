"""Builds wheels with compiled kernels for several systems, on one machine, by ziglang.

    python scripts/build_wheels.py [TARGET...] [--sdist]      # all targets, into dist/

The targets are those of `TARGETS`. For each set of instructions of a target one library is
compiled into build/compiled/TARGET, with the kernels of `scripts/wheel_kernels.py` and the threads
that run them. Its symbols are checked: it may need the system's C library alone. A subfolder keeps
the object files, so that a second run compiles few of them. The first run takes one core about
eleven minutes for each library. ``--pack`` takes libraries that another machine compiled, from the
same folders. `scripts/try_wheel.py` tries a wheel on its own system.
"""

import argparse
import os
import re
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import lief
from wheel_kernels import all_sources, told

from parki.runtime import cache, host, zig
from parki.settings import thread_count

ROOT = Path(__file__).resolve().parents[1]
X86 = {level: level.replace("-", "_") for level in ("x86-64-v4", "x86-64-v3", "x86-64-v2")}
ARM = {"armv8-sve": "generic+sve", "armv8": "generic"}
MOST = 60e6  # bytes of a wheel; the package index takes 100 MB
TOGETHER = 16  # kernels in a text: to start the compiler takes as long as to compile a small one
MACROS = ("parki_entry", "PK_PARAMETERS", "PK_ARGUMENTS", "PK_COMMA")  # of each kernel


@dataclass(frozen=True)
class Target:
    """A system: ziglang's name for it, the wheel's tag, and a processor for each level.

    The levels are those of `parki.runtime.shipped`. ``needs`` are libraries of the system.
    """

    triple: str
    platform: str
    levels: dict[str, str]
    needs: tuple[str, ...]
    link: tuple[str, ...] = ("-Wl,--gc-sections",)


GLIBC_MINOR = 17  # of its version 2, as in the triples
GLIBC = ("libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-")
# The first is the library's own name.
APPLE = ("@rpath/", "/usr/lib/libSystem.B.dylib")
MICROSOFT = ("KERNEL32.dll", "api-ms-win-crt-")
STRIP = ("-Wl,-dead_strip", "-Wl,-install_name,@rpath/parki.so")
TARGETS = {
    "linux-x86_64": Target(
        "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64", X86, GLIBC
    ),
    "linux-aarch64": Target(
        "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64", ARM, GLIBC
    ),
    "macos-arm64": Target(
        "aarch64-macos.11.0", "macosx_11_0_arm64", {"armv8": "apple_m1"}, APPLE, STRIP
    ),
    "macos-x86_64": Target("x86_64-macos.11.0", "macosx_11_0_x86_64", X86, APPLE, STRIP),
    "windows-x86_64": Target("x86_64-windows-gnu", "win_amd64", X86, MICROSOFT),
}


def build(sources: dict[str, str], target: Target, level: str, folder: Path, jobs: int) -> Path:
    """Compile all sources for a level of a target, and link its library."""
    command = [*zig.command(), "-target", target.triple, f"-mcpu={target.levels[level]}"]
    flags = [flag for flag in host.FLAGS if flag != "-shared"]
    flags += ["-DPK_TEAM=1", "-ffunction-sections", "-w", "-Qunused-arguments"]
    if level == "x86-64-v4":
        flags.append("-mprefer-vector-width=512")
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    identity = cache.key(version.stdout, *command[1:], *flags)[:8]
    objects = folder / "objects" / f"{level}-{identity}"
    objects.mkdir(parents=True, exist_ok=True)

    def compile_one(text: str) -> Path:
        path = objects / f"{cache.key(text)}.o"
        if not path.exists():
            part = path.with_suffix(".part")
            words = [*command, *flags, "-x", "c++", "-c", "-", "-o", str(part)]
            subprocess.run(words, input=text, text=True, check=True)
            part.rename(path)
        return path

    texts = joined(sources)
    with ThreadPoolExecutor(jobs) as pool:
        done = pool.map(compile_one, texts)
        paths = list(told(done, f"files compiled for {target.triple}, {level}", len(texts)))
    names, library = objects / "list", folder / f"{level}.so"
    names.write_text("\n".join(map(str, paths)), encoding="utf-8")
    link = [*command, "-shared", "-s", *target.link, f"@{names}", "-o", str(library)]
    subprocess.run(link, check=True)
    return library


def finish(library: Path, target: Target, entries: set[str]) -> None:
    """Check a library, and seal it."""
    check(library, target, entries)
    cache.seal(library)
    print(f"{library}: {len(entries)} kernels, {library.stat().st_size / 1e6:.1f} MB", flush=True)


def joined(sources: dict[str, str]) -> list[str]:
    """Join sources that begin with the prelude, about `TOGETHER` in a text, which they share.

    Neighbours stay neighbours: they are alike, so that the wheel packs them well. A kernel's name,
    a hash, says whether a text begins with it: other texts stay the same when it changes.
    """
    prelude = host.PRELUDE.read_text(encoding="utf-8")
    alone, texts = list[str](), [[prelude]]
    for name, source in sources.items():
        if not source.startswith(prelude):  # the threads
            alone.append(source.replace("parki_entry", name))
            continue
        if int(name.rpartition("_")[2], 16) % TOGETHER == 0 and len(texts[-1]) > 1:
            texts.append([prelude])
        begin = f"#define parki_entry {name}\nnamespace {name}_ {{\n"
        end = "}\n" + "".join(f"#undef {macro}\n" for macro in MACROS)
        texts[-1].append(begin + source.removeprefix(prelude) + end)
    return alone + ["".join(parts) for parts in texts]


def check(library: Path, target: Target, entries: set[str]) -> None:
    """Refuse a library that lacks an entry point, or needs more than the system's C library."""
    found = lief.parse(library)
    exported = {function.name.removeprefix("_") for function in found.exported_functions}
    if missing := entries - {name.removeprefix("_") for name in exported}:
        raise SystemExit(f"{library} lacks {len(missing)} entry points, such as {min(missing)}")
    needed = {getattr(each, "name", each) for each in found.libraries}
    if alien := {name for name in needed if not name.startswith(target.needs)}:
        raise SystemExit(f"{library} needs {', '.join(alien)}; expected {', '.join(target.needs)}")
    if target.platform.endswith("_arm64") and not found.has_code_signature:
        raise SystemExit(f"{library} is not signed, and Apple's processors load no such library")


def wheel(name: str, target: Target, folder: Path, dist: Path) -> Path:
    """Build a target's wheel from its folder of libraries, and look at it."""
    environment = {
        **os.environ,
        "PARKI_WHEEL_KERNELS": str(folder),
        "PARKI_WHEEL_TAG": f"py3-none-{target.platform}",
    }
    for old in dist.glob(f"*-{target.platform}.whl"):  # of another version
        old.unlink()
    python_build("--wheel", dist, environment)
    (path,) = dist.glob(f"*-{target.platform}.whl")
    if path.stat().st_size > MOST:
        raise SystemExit(f"{path} has {path.stat().st_size / 1e6:.1f} MB, more than {MOST / 1e6}")
    inside = sorted(n for n in zipfile.ZipFile(path).namelist() if "/compiled/" in n)
    expected = sorted(f"parki/compiled/{x}.so{y}" for x in target.levels for y in ("", ".seal"))
    if inside != expected:
        raise SystemExit(f"{path} has {inside}; expected {expected}")
    if name.startswith("linux"):
        words = [sys.executable, "-m", "auditwheel", "show", str(path)]
        shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        print(shown.strip())
        found = re.search(r'"manylinux_2_(\d+)_', shown)
        if not found or int(found.group(1)) > GLIBC_MINOR:
            raise SystemExit(f"auditwheel finds {path} not to be for {target.platform}")
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
    return path


def python_build(what: str, dist: Path, environment: dict[str, str] | None = None) -> None:
    words = [sys.executable, "-m", "build", what, "--outdir", str(dist), str(ROOT)]
    subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--sdist", action="store_true", help="the sdist too")
    parser.add_argument("--pack", action="store_true", help="compile nothing: libraries are there")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--jobs", type=int, default=thread_count())
    parser.add_argument("--every", type=int, default=1, help="only every so many kernels: a trial")
    parser.add_argument("--only", type=Path, help="only the entry points of a file: a trial")
    arguments = parser.parse_args()
    if unknown := set(arguments.targets) - set(TARGETS):
        parser.error(f"unknown targets {', '.join(unknown)}; expected {', '.join(TARGETS)}")
    if not zig.command():
        parser.error("ziglang is missing: pip install 'parki[wheels]'")
    sources = all_sources(arguments.jobs)
    if arguments.only:
        wanted = set(arguments.only.read_text(encoding="utf-8").split())
        sources = {name: text for name, text in sources.items() if name in wanted}
    sources = dict(list(sources.items())[:: arguments.every])
    for name in arguments.targets or TARGETS:
        target, folder = TARGETS[name], ROOT / "build" / "compiled" / name
        for level in target.levels:
            if not arguments.pack:
                build(sources, target, level, folder, arguments.jobs)
            finish(folder / f"{level}.so", target, set(sources))
        wheel(name, target, folder, arguments.dist)
    if arguments.sdist:
        python_build("--sdist", arguments.dist)


if __name__ == "__main__":
    main()
