"""The command line: what it prints, draws and returns, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import parki
from parki.cli import check, demo
from parki.cli import main as cli
from parki.runtime import spaces
from parki.runtime.spaces import SPACES, why_unavailable
from parki.runtime.spaces import cupy as cupy_space


def test_info(capsys):
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    words = "compiler", "threads", "PARKI_CACHE_DIR", "processor", "are free", "measured"
    for word in (parki.__version__, np.__version__, *words):
        assert word in text
    for space in SPACES:
        line = next(line for line in text.splitlines() if line.startswith(f"  {space} "))
        reason = line.partition("not here: ")[2]
        assert ("available" in line) == (space in parki.available_spaces())
        assert bool(reason) == (space not in parki.available_spaces())
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"parki {parki.__version__}\n"
    assert cli.main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["parki"], found["numpy"]) == (parki.__version__, np.__version__)
    here = [name for name, state in found["spaces"].items() if state["available"]]
    assert here == parki.available_spaces()
    assert all(bool(s["reason"]) != s["available"] for s in found["spaces"].values())
    assert "PARKI_CACHE_DIR" in found["settings"]


def test_info_without_compiler(monkeypatch, capsys):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    assert "none: CXX is 'no-such-compiler'" in text
    assert text.count("CXX is 'no-such-compiler'") == 1
    assert text.count(": as for ") == 3  # the kernels and two spaces
    assert cli.main(["info", "--json"]) == 0
    spaces = json.loads(capsys.readouterr().out)["spaces"]
    assert all(
        "CXX is 'no-such-compiler'" in spaces[name]["reason"] for name in ("OpenMP", "Serial")
    )


def test_amd_is_not_advised_to_install_cuda(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(spaces, "_usable", spaces._usable.__wrapped__)
    cupy_space.array_module.cache_clear()
    try:
        assert "cupy-cuda12x" in why_unavailable("Cuda")
        for said in (why_unavailable("HIP"), refusal("HIP")):
            assert said.startswith("CuPy is not installed, so there is no GPU space; an AMD GPU")
            assert "cuda" not in said
        assert "cupy-cuda12x" in refusal("GPU")
    finally:
        cupy_space.array_module.cache_clear()


def refusal(name: str) -> str:
    """Return why a space is refused."""
    with pytest.raises(parki.UnavailableError) as caught:
        parki.get_execution_space(name)
    return str(caught.value)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_demo_keeps_the_promise(dtype, capsys):
    words = ["demo", "--points", "3000", "--dtype", dtype, "--no-picture"]
    assert cli.main(words) == 0
    text = capsys.readouterr().out
    for word in ("P2P", "P2G", "FGC", "G2P", "total", "OK: the promise is kept", dtype):
        assert word in text
    assert "Picture" not in text
    pages = re.findall(r"docs/\w+\.md", text)
    assert len(pages) == 3 and all((Path(__file__).parents[1] / page).exists() for page in pages)
    assert f"{Path(sys.executable).parent}/python" in text.splitlines()[-2]


def test_demo_says_when_the_promise_is_broken(monkeypatch, capsys):
    monkeypatch.setattr(check, "direct_sum", lambda *_, **__: np.full((3, demo.SAMPLES), 1e3))
    assert cli.main(["demo", "--points", "1000", "--no-picture"]) == 1
    assert "NOT OK" in capsys.readouterr().out


def test_demo_draws(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "PIXELS", (160, 40))
    monkeypatch.setattr(demo, "STREAMLINES", (2.0, 0.5))
    picture = tmp_path / "flow.png"
    assert cli.main(["demo", "--points", "1000", "--output", str(picture)]) == 0
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_demo_without_matplotlib(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda _: None)
    picture = tmp_path / "flow.png"
    assert cli.main(["demo", "--points", "1000", "--output", str(picture)]) == 0
    assert "pip install matplotlib" in capsys.readouterr().out
    assert not picture.exists()


def test_rich_is_needed_by_the_command_line_alone():
    program = """
import sys
from pathlib import Path
sys.modules["rich"] = None  # as where it is not installed
import numpy as np
import parki
points = np.full((3, 2), [0.25, 0.5])
u = parki.laplace(points, points, np.ones(2), box=[1, 1, 1], tolerance=1e-2)
print(u.shape)
assert not {"torch", "jax"} & {*sys.modules}
from parki.__main__ import main
sys.exit(main())
"""
    run = run_parki(["info"], program=("-c", program))
    assert run.returncode == 2
    assert run.stdout == "(2,)\n"  # which a plain install has to give
    assert run.stderr.splitlines()[-1].startswith("parki: the command line needs rich")
    assert "pip install rich" in run.stderr and "Traceback" not in run.stderr


def test_without_docstrings():
    """Python's -OO leaves none: all names can be imported, a sum made, the command line run."""
    program = """
import sys
import numpy as np
import parki
assert parki.__doc__ is None
for name in dir(parki):
    getattr(parki, name)
points = np.full((3, 2), [0.25, 0.5])
print(parki.laplace(points, points, np.ones(2), box=[1, 1, 1], tolerance=1e-2).shape)
from parki.__main__ import main
sys.exit(main())
"""
    run = run_parki(["info"], program=("-OO", "-c", program))
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("(2,)\n")
    assert "PARKI_FFT" in run.stdout


# --- streams ----------------------------------------------------------------------------------


def said(run: subprocess.CompletedProcess[str]) -> str:
    """Return what a command wrote to stderr, but for kernels that it was the first to need."""
    lines = run.stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("parki: compiling kernels"))


def run_parki(
    words, unbuffered=False, encoding="utf-8:strict", program=("-m", "parki"), **streams: object
):
    """Run the command line in a process of its own."""
    buffered = {"PYTHONUNBUFFERED": "1" if unbuffered else "", "PYTHONIOENCODING": encoding}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run(
        [sys.executable, *program, *words],
        env=os.environ | buffered,
        text=True,
        timeout=300,
        check=False,
        **given,  # type: ignore[call-overload]
    )


@pytest.fixture
def unread():
    """A pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.each
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["demo", "--points", "1000", "--no-picture", "--space", "CPU"],
        *(
            pytest.param(words.split(), marks=pytest.mark.slow)
            for words in ("info", "cache list", "cache list --json", "bench --points 300")
        ),
    ],
    ids=" ".join,
)
def test_a_closed_pipe_ends_quietly(words, unbuffered, unread):
    run = run_parki(words, unbuffered, stdout=unread)
    assert (run.returncode, said(run)) == (0, "")


def test_check_ends_quietly_too(unread):
    program = "import sys; from parki.cli import check; from parki.__main__ import main\n"
    program += (
        "check.SUMS, check.POINTS = {'laplace': check.SUMS['laplace']}, 200; sys.exit(main())"
    )
    run = run_parki(["check", "--space", "CPU"], stdout=unread, program=["-c", program])
    assert (run.returncode, said(run)) == (0, "")


@pytest.mark.parametrize("words", [["demo", "--seed", "-1"], ["--points"]])
def test_nobody_reads_stderr(words, unread):
    run = run_parki(words, stdout=unread, stderr=unread)
    assert run.returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.each
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        *(["cache", "list"], ["--help"]),
        *(pytest.param(words, marks=pytest.mark.slow) for words in (["info"], [], ["tune", "-h"])),
    ],
    ids=" ".join,
)
def test_a_full_disk_is_one_line(words, unbuffered):
    with open("/dev/full", "w") as full:
        run = run_parki(words, unbuffered, stdout=full)
    assert run.returncode == 2
    assert run.stderr == "parki: the output cannot be written: No space left on device\n"


def test_names_that_are_no_text_are_printed(tmp_path):
    """A file's name may hold bytes that no encoding has, or letters that the terminal's has not."""
    name = os.fsdecode(b"\xff.npz")
    np.savez(tmp_path / "in.npz", src=np.zeros((3, 1)), dens=np.zeros(1))
    words = ["eval", str(tmp_path / "in.npz"), "-o", str(tmp_path / name)]
    words += ["--kernel", "laplace", "--periodicity", "0", "--space", "Serial"]
    run = run_parki(words)
    assert (run.returncode, said(run)) == (0, "")
    assert "\\udcff.npz: u (1,)" in run.stdout


def test_interrupted(tmp_path):
    environment = os.environ | {"PARKI_CACHE_DIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "parki", "check", "--space", "Serial"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # A shell's background jobs ignore the signal, and so would what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    assert "compiling kernels" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "parki: interrupted\n")


# --- what messages advise -----------------------------------------------------------------------


def test_what_messages_advise_to_install_can_be_installed():
    """By names of packages: no package index need have parki, and a checkout need not be here."""
    root = Path(parki.__file__).parents[1]
    extras = (root / "pyproject.toml").read_text(encoding="utf-8")
    found = set()
    for path in root.glob("parki/**/*.py"):
        for words in re.findall(r"'pip install ([^']+)'", path.read_text(encoding="utf-8")):
            found |= {word.strip('\\"') for word in words.split()}
    assert {"rich", "h5py", "matplotlib", "mpich"} <= found
    assert not {name for name in found if f'"{name}>=' not in extras}
