"""The command line: what it prints, draws and returns; and the suspension of the demonstration."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import parki
from parki import cli, demo


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    for word in (parki.__version__, np.__version__, "compiler", "threads", "PARKI_CACHE_DIR"):
        assert word in text
    for space in cli.SPACES:
        line = next(line for line in text.splitlines() if line.startswith(f"  {space} "))
        reason = line.partition("not here: ")[2]
        assert ("available" in line) == (space in parki.available_spaces())
        assert bool(reason) == (space not in parki.available_spaces())


def test_info_without_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert cli.main(["info"]) == 0
    assert "none: CXX is 'no-such-compiler'" in capsys.readouterr().out


def test_no_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "demo" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["demo", "--help"]])
def test_help_and_version(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 0
    assert "parki" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--points", "10"], "points is 10; expected at least 1000"),
        (["--tolerance", "-1"], "tolerance is -1"),
        (["--tolerance", "1e-9", "--dtype", "float32"], "float32 holds"),
        (["--space", "abacus"], "execution_space is 'abacus'"),
        (["--output", "no/such/folder/x.png"], "folder does not exist"),
    ],
)
def test_impossible_requests_are_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", *words]) == 2
    streams = capsys.readouterr()
    assert message in streams.err
    assert streams.err.count("\n") == 1
    assert streams.out == ""


def test_missing_gpu_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    if "Cuda" in parki.available_spaces():
        pytest.skip("there is a GPU")
    assert cli.main(["demo", "--space", "Cuda"]) == 2
    assert capsys.readouterr().err.startswith("parki: ")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_demo_keeps_the_promise(dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["demo", "--points", "3000", "--dtype", dtype, "--no-picture"]
    assert cli.main(words) == 0
    text = capsys.readouterr().out
    for word in ("P2P", "P2G", "FGC", "G2P", "total", "OK: the promise is kept", dtype):
        assert word in text
    assert "Picture" not in text


def test_demo_says_when_the_promise_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "direct_sum", lambda *_, **__: np.full((3, demo.SAMPLES), 1e3))
    assert cli.main(["demo", "--points", "1000", "--no-picture"]) == 1
    assert "NOT OK" in capsys.readouterr().out


def test_demo_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "PIXELS", (160, 40))
    monkeypatch.setattr(demo, "STREAMLINES", (2.0, 0.5))
    picture = tmp_path / "flow.png"
    assert cli.main(["demo", "--points", "1000", "--output", str(picture)]) == 0
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_demo_without_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda _: None)
    picture = tmp_path / "flow.png"
    assert cli.main(["demo", "--points", "1000", "--output", str(picture)]) == 0
    assert "pip install parki[plot]" in capsys.readouterr().out
    assert not picture.exists()


def test_module_runs() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "parki", "--version"], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == f"parki {parki.__version__}"


def test_suspension() -> None:
    drops = demo.suspension(20_000, seed=3)
    again = demo.suspension(20_000, seed=3)
    assert np.array_equal(drops.points, again.points)
    assert drops.points.shape == drops.normals.shape == (3, 20_000)
    assert np.allclose(np.linalg.norm(drops.normals, axis=0), 1)
    rho = np.hypot(drops.points[1] - 0.5, drops.points[2] - 0.5)
    assert rho.max() < demo.PIPE_RADIUS
    assert drops.points[0].min() >= 0
    assert drops.points[0].max() <= demo.BOX[0]
    # No two drops touch, images included; and the forces cancel.
    step = drops.centres[:, :, None] - drops.centres[:, None, :]
    step[0] -= demo.BOX[0] * np.rint(step[0] / demo.BOX[0])
    apart = np.linalg.norm(step, axis=0) - drops.radii[:, None] - drops.radii
    assert np.min(apart[~np.eye(drops.radii.size, dtype=bool)]) > 0
    assert np.allclose(drops.density[:3].sum(axis=1), 0, atol=1e-9)
    # Half of the drops sink, half rise.
    assert drops.heavy.sum() == drops.radii.size // 2
