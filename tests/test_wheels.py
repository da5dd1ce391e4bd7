"""Libraries for other systems: they are linked and checked here, and run where an emulator is."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_kernels import SQUARE, small_kernel

from parki.runtime import cache, host, shipped, zig

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "scripts"
# Loads the library argv[1], runs its kernel of five numbers by its threads, and prints them.
HOST = r"""
#include <stdio.h>
#ifdef _WIN32
#include <windows.h>
#define OPEN(path) LoadLibraryA(path)
#define FIND(library, name) (void *)GetProcAddress(library, name)
#else
#include <dlfcn.h>
#define OPEN(path) dlopen(path, RTLD_NOW)
#define FIND dlsym
#endif
int main(int n, char **words) {
  void *library = OPEN(words[1]);
  if (!library) return puts("the library cannot be loaded"), 1;
  int (*launch)(int, void *, void *, long long, int) = FIND(library, "THREADS_ENTRY");
  double v[5] = {0, 1, 2, 3, 4};
  long long slots[2] = {(long long)v, 5};
  if (launch(0, FIND(library, "KERNEL_ENTRY"), slots, 5, 2)) return 1;
  for (int i = 0; i < 5; ++i) printf("%.17g ", v[i]);
  return 0;
}
"""


@pytest.fixture(scope="module")
def script():
    """The script that builds wheels."""
    for name in ("lief", "ziglang"):
        pytest.importorskip(name, reason=f"{name} is not installed (pip install 'parki[wheels]')")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        yield importlib.import_module("build_wheels")


@pytest.fixture
def sources(tmp_path):
    """Two kernels and the threads, by the names of their entry points; the first is run."""
    kernels = (small_kernel(tmp_path, each) for each in (SQUARE, SQUARE.replace("0.25", "0.5")))
    texts = (*(kernel._object.source for kernel in kernels), host.THREADS.read_text())
    return {shipped.symbol(text): text for text in texts}


def run_by(emulator, target, script, sources, folder):
    """Run a target's library in a program of that system, by an emulator."""
    found = script.TARGETS[target]
    kernel, _, threads = sources
    program, text = folder / "host.exe", folder / "host.c"
    named = HOST.replace("THREADS_ENTRY", threads).replace("KERNEL_ENTRY", kernel)
    text.write_text(named, encoding="utf-8")
    compiler = [zig.command()[0], "cc", "-target", found.triple]
    subprocess.run([*compiler, str(text), "-o", str(program)], check=True)
    for level in found.levels:
        library = script.build(sources, found, level, folder, 1)
        words = [*emulator, str(program), str(library)]
        ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert np.array_equal(np.fromstring(ran.stdout, sep=" "), np.arange(5.0) ** 2 + 0.25)


def test_texts_keep_the_order_of_kernels(script):
    """A kernel that is left out changes the text that had it, and at most its neighbour's end."""
    prelude = host.PRELUDE.read_text()
    texts = [f"{prelude}// {n}\n" for n in range(200)]
    sources = {shipped.symbol(text): text for text in texts}
    found = script.joined(sources)
    assert re.findall(r"^// (\d+)$", "".join(found), re.M) == [str(n) for n in range(200)]
    assert 5 < len(found) < 40
    sources.pop(shipped.symbol(texts[100]))
    assert len({*found} - {*script.joined(sources)}) <= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["linux-x86_64", "linux-aarch64", "macos-arm64", "macos-x86_64", "windows-x86_64"]
)
def test_libraries_need_the_c_library_alone(script, sources, tmp_path, target):
    """`check` refuses others; one without an entry point is refused too."""
    found = script.TARGETS[target]
    level = min(found.levels)
    library = script.build(sources, found, level, tmp_path, 1)
    script.finish(library, found, set(sources))
    assert cache.is_whole(library)
    with pytest.raises(SystemExit, match=r"lacks 1 entry points, such as parki_none"):
        script.check(library, found, {*sources, "parki_none"})
    with pytest.raises(SystemExit, match="expected nothing"):
        script.check(library, replace(found, needs=("nothing",)), set(sources))


@pytest.mark.slow
def test_windows_by_wine(script, sources, tmp_path):
    emulator = shutil.which("wine64") or shutil.which("wine") or "/usr/lib/wine/wine64"
    if not Path(emulator).exists():
        pytest.skip("wine is not installed (apt install wine64)")
    run_by([emulator], "windows-x86_64", script, sources, tmp_path)


@pytest.mark.slow
def test_aarch64_by_qemu(script, sources, tmp_path):
    """By the C library of the root that QEMU_LD_PREFIX names, or of Debian's package."""
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    root = os.environ.get("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu")
    if not emulator or not Path(root).exists():
        pytest.skip("qemu-user and libc6-arm64-cross are not installed (apt install)")
    run_by([emulator, "-cpu", "max", "-L", root], "linux-aarch64", script, sources, tmp_path)


def test_a_tag_makes_the_version(tmp_path):
    """In a clone, and in an archive of it; a copy without git has none to show."""
    pytest.importorskip(
        "hatch_vcs", reason="hatch-vcs is not installed (pip install 'parki[wheels]')"
    )
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitattributes", ".git_archival.txt"):
        shutil.copy(ROOT / name, tmp_path)

    def run(*words: str) -> str:
        how = {"cwd": tmp_path, "capture_output": True, "text": True, "check": True}
        return subprocess.run(words, **how).stdout.strip()

    def version() -> str:
        return run(sys.executable, "-m", "hatchling", "metadata", "version")

    assert version() == "0.0"
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    run("git", "init", "--quiet")
    run("git", "add", ".")
    run("git", *author, "commit", "--quiet", "--message", "first")
    assert version().startswith("0.1.dev1+g")
    run("git", "tag", "v0.7.2")
    assert version() == "0.7.2"
    archived = run("git", "archive", "--format=tar", "HEAD", ".git_archival.txt")
    assert "describe-name: v0.7.2\n" in archived
    run("git", *author, "commit", "--quiet", "--allow-empty", "--message", "second")
    assert version().startswith("0.7.3.dev1+g")


def test_workflows_are_those_of_the_scripts():
    """They run on the Pythons and systems of pyproject.toml and `build_wheels.py`."""
    flows = {path.name: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}
    versions = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    listed = re.search(r"python: \[(.*)\]", flows["tests.yml"])
    assert listed and re.findall(r"3\.\d+", listed[1]) == versions
    targets = re.findall(
        r'^    "([\w-]+)": Target', (SCRIPTS / "build_wheels.py").read_text(), re.M
    )
    built = re.search(r"target: \[(.*)\]", flows["wheels.yml"])
    assert built and built[1].split(", ") == targets
    assert re.findall(r"\{target: ([\w-]+),", flows["wheels.yml"]) == targets
    for name, text in flows.items():
        for path in re.findall(r"(?:scripts|\.ci)/[\w.]+", text):
            assert (ROOT / path).exists(), f"{name} runs {path}"
