"""Environment variables are checked where they are read, and reports name one that is wrong."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_kernels import RUN, SQUARE, run_python, small_kernel, write_kernel

import parki
from parki import settings
from parki.cli import main as cli
from parki.ewald.choice import machines
from parki.runtime import kernel as kernel_module
from parki.runtime import shipped
from parki.settings import MOST_THREADS, SETTINGS, cache_directory, checked_setting, thread_count

BAD_NUMBERS = ["99999", "0", "-3", "2.5", "abc", "4,2", "²", str(MOST_THREADS + 1), "9" * 5000]


# ---------------------------------------------------------------------- numbers
@pytest.mark.each
@pytest.mark.parametrize("name", ["PARKI_NUM_THREADS", "PARKI_EMULATED_TEAM"])
@pytest.mark.parametrize("text", BAD_NUMBERS)
def test_a_bad_number_is_refused(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    expected = f"{name} is '{text[:20]}.*expected a whole number from 1 to 1024; correct"
    with pytest.raises(parki.ParkiValueError, match=expected):
        checked_setting(name)


@pytest.mark.parametrize(
    ("own", "openmp", "number"),
    [
        *(("1", "3", 1), (" 7 ", "3", 7), ("1024", "3", 1024), ("", "3", 3), (" ", "3", 3)),
        # OpenMP's own variable may be a list.
        *((None, "5", 5), (None, "4,2", 4), (None, " 4 , 2", 4), (None, "1,1,1", 1)),
        (None, "99999", MOST_THREADS),
    ],
)
def test_a_good_number(monkeypatch, own, openmp, number):
    monkeypatch.setenv("OMP_NUM_THREADS", openmp)
    for name in ("PARKI_NUM_THREADS", "PARKI_EMULATED_TEAM"):
        monkeypatch.delenv(name, raising=False) if own is None else monkeypatch.setenv(name, own)
    assert thread_count() == number
    assert int(checked_setting("PARKI_EMULATED_TEAM")) == int((own or "").strip() or 1)


@pytest.mark.parametrize(
    "text", ["0", "-3", "2.5", "abc", ",", "4,", "4,x", "0,2", "²", "9" * 5000]
)
def test_openmp_s_own_variable_is_checked(monkeypatch, text):
    monkeypatch.delenv("PARKI_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    expected = f"OMP_NUM_THREADS is '{text[:20]}.*expected a positive whole number, or several"
    with pytest.raises(parki.ParkiValueError, match=expected):
        thread_count()
    monkeypatch.setenv("PARKI_NUM_THREADS", "3")  # then nobody asks for the other
    assert thread_count() == 3


# ---------------------------------------------------------------------- what a container may use
QUOTAS = {
    "version 2": ("0::/\n", {"cpu.max": "250000 100000\n"}, 2),
    "less than one": ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
    "none": ("0::/\n", {"cpu.max": "max 100000\n"}, 64),
    "above": ("0::/a/b\n", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3),
    "more than there are": ("0::/\n", {"cpu.max": "9900000 100000\n"}, 64),
    "version 1": (
        "5:memory:/x\n4:cpu,cpuacct:/x\n",
        {"cpu/x/cpu.cfs_quota_us": "400000\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
        4,
    ),
    "none in version 1": (
        "4:cpu,cpuacct:/\n",
        {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
        64,
    ),
    "nothing to read": ("0::/\n", {"cpu.max": "\n"}, 64),
}


@pytest.mark.parametrize("name", list(QUOTAS))
def test_quota_of_a_container(monkeypatch, tmp_path, name):
    own, files, expected = QUOTAS[name]
    named = {"proc/self/cgroup": own} | {f"groups/{k}": v for k, v in files.items()}
    for path, text in named.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    monkeypatch.setattr(settings, "PROC", tmp_path / "proc")
    monkeypatch.setattr(settings, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    for variable in ("PARKI_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    settings.processors.cache_clear()
    try:
        assert thread_count() == expected
        monkeypatch.setenv("OMP_NUM_THREADS", "7")  # who asks for more gets it
        assert thread_count() == 7
    finally:
        settings.processors.cache_clear()


def test_a_machine_of_many_cores(monkeypatch):
    monkeypatch.setattr(settings, "processors", lambda: math.inf)
    for name in ("PARKI_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(5000), raising=False)
    assert thread_count() == MOST_THREADS


def test_the_most_threads_run(tmp_path):
    """Also where the caller is a thread with a small stack, and where the system starts fewer."""
    code = "import threading\nthreading.stack_size(256 * 1024)\ndef work(): "
    body = "; ".join(line.strip() for line in RUN.strip().splitlines())
    code += f"{body}\nthread = threading.Thread(target=work); thread.start(); thread.join()\n"
    environment = {"PARKI_NUM_THREADS": str(MOST_THREADS), "OMP_WAIT_POLICY": "passive"}
    status, out, err = run_python(code, write_kernel(tmp_path, SQUARE), **environment)
    assert (status, out) == (0, "right\n"), err


# ---------------------------------------------------------------------- the others
def test_bad_settings_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "")
    monkeypatch.setattr(kernel_module, "_loaded", {})
    for name, text, message, calls in (
        ("PARKI_EXECUTOR", "gpu", "expected one of embedded, pykokkos; correct", (square,)),
        ("PARKI_EMULATED_TEAM", "abc", "", (square, shipped.usable)),
        ("PARKI_NUM_THREADS", "99999", "expected a whole number from 1 to 1024", (square,)),
        ("CXX", '"', "expected a command whose quotes", (parki.runtime.host.compiler,)),
    ):
        monkeypatch.setenv(name, text)
        for call in calls:
            words = re.escape(f"{name} is {text!r}") + f".*{message}"
            with pytest.raises(parki.ParkiValueError, match=words):
                call(tmp_path) if call is square else call()
        monkeypatch.delenv(name)


def square(folder):
    small_kernel(folder, SQUARE)(1, v=np.ones(1))


def test_a_cache_folder_of_nobody(monkeypatch):
    monkeypatch.setenv("PARKI_CACHE_DIR", "~nobody-of-this-name/cache")
    expected = "PARKI_CACHE_DIR is '~nobody-of-this-name/cache'; expected a folder"
    with pytest.raises(parki.ParkiValueError, match=expected):
        cache_directory()


@pytest.mark.parametrize("place", ["", "beneath"])
def test_a_cache_folder_that_is_a_file(tmp_path, place):
    """One warning says so; none tells to run `parki tune` again."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    code = """
    import numpy as np, parki
    points = np.random.default_rng(0).random((3, 50))
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-2, execution_space="Serial")
    def no_more(*_): raise SystemExit
    parki.ewald.pipeline.arrival.preparing = no_more
    parki.laplace(points, points, points[0], options)
    """
    status, _, err = run_python(code, PARKI_CACHE_DIR=str(tmp_path / "file" / place), CXX=None)
    assert status == 0, err
    assert "cannot be used (it is a file, or in one): kernels are compiled again" in err
    assert "tuned" not in err and "parki tune" not in err


def test_numbers_that_cannot_be_read_are_still_reported(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path))
    space = parki.get_execution_space("Serial")
    machines.path(space).mkdir()  # a folder in its place
    machines.clear()
    with caplog.at_level("WARNING", "parki"):
        assert machines.read(space) is None
    machines.clear()
    assert "cannot be read" in caplog.text


def test_a_compiler_with_blanks_in_its_path(monkeypatch, tmp_path):
    program = tmp_path / "my tools" / "c++"
    program.parent.mkdir()
    program.symlink_to(shutil.which("g++") or shutil.which("clang++") or "")
    monkeypatch.setenv("CXX", str(program))
    with pytest.raises(parki.UnavailableError, match="cannot be run; a path with blanks needs"):
        parki.runtime.host.compiler()
    monkeypatch.setenv("CXX", f'"{program}"')  # as the message says
    assert parki.runtime.host.compiler().command == (str(program),)
    script = '. "$1/scripts/setup.sh"; has_compiler'  # as scripts/test.sh does
    words = ["bash", "-c", script, "bash", str(Path(__file__).parents[1])]
    for cxx, status in ((f'"{program}" -O1', 0), (str(program), 1)):
        assert subprocess.run(words, env={**os.environ, "CXX": cxx}).returncode == status
    monkeypatch.setenv("CXX", "no-such-launcher g++")
    with pytest.raises(parki.UnavailableError, match="cannot be run; parki compiles"):
        parki.runtime.host.compiler()


# ---------------------------------------------------------------------- reports
WRONG = {
    "PARKI_NUM_THREADS": "99999",
    "OMP_NUM_THREADS": "abc",
    "OMP_WAIT_POLICY": "lazy",
    "PARKI_EMULATED_TEAM": "abc",
    "PARKI_EXECUTOR": "gpu",
    "PARKI_CACHE_DIR": "~nobody-of-this-name/cache",
    "CXX": "g++ 'a",
}


def test_info_names_bad_settings(monkeypatch, capsys):
    for name, text in WRONG.items():
        monkeypatch.setenv(name, text)
    assert cli.main(["info"]) == 0
    out = capsys.readouterr().out
    assert np.__version__ in out
    assert cli.main(["info", "--json"]) == 0
    as_json = capsys.readouterr().out
    for name, text in WRONG.items():
        assert f"{name} is {text!r}; expected" in out and text in as_json
        assert SETTINGS[name].meaning not in out


def test_the_table_names_bad_settings():
    run = subprocess.run(
        [sys.executable, "-m", "parki.settings"],
        env={**os.environ, **WRONG},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = run.stdout.splitlines()
    assert len(lines) == len(SETTINGS)
    for name, text in WRONG.items():
        line = next(line for line in lines if line.startswith(name))
        assert text in line and "expected" in line and SETTINGS[name].meaning not in line


# ---------------------------------------------------------------------- options
