"""The commands ``parki check``, ``eval`` and ``cache``, and JSON: results, messages, exit codes."""

import importlib.util
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_kernels import run_python

import parki
from parki.cli import bench, check, info
from parki.cli import cache as cache_command
from parki.cli import eval as evaluate
from parki.cli import main as cli
from parki.cli.tune import command as tune_report
from parki.ewald.sums import SUMS
from parki.runtime import cache, host

WITH_FOLDER = ("not_parki.so", "notes.txt", "tuned.json", "tuned-violin.json", f"{'e' * 40}.so")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder with one of everything, and with files of others."""
    folder = tmp_path / "cache"
    (folder / "pykokkos" / ("c" * 40)).mkdir(parents=True)
    (folder / "pykokkos" / ("c" * 40) / "kernel.py").write_bytes(bytes(300))
    for name, size in ((f"{'a' * 40}.so", 2000), (f"{'b' * 40}.so", 3000), ("tuned-x.json", 70)):
        (folder / name).write_bytes(bytes(size))
    for name in ("a.lock", "b.translation", "c.pykokkos"):
        (folder / f"{name[0] * 40}{name[1:]}").touch()
    for name in (f"{'d' * 40}x.tmp", *WITH_FOLDER[:-1]):
        (folder / name).touch()
    (folder / "tuned-violin.json").write_text('{"strings": 4}', encoding="utf-8")
    (folder / WITH_FOLDER[-1]).mkdir()
    (folder / WITH_FOLDER[-1] / "notes.txt").touch()
    monkeypatch.setenv("PARKI_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def arrays(rng):
    return {
        "src": rng.random((3, 300)),
        "trg": rng.random((3, 200)),
        "dens": rng.standard_normal((6, 300)),
        "norms": rng.standard_normal((3, 300)),
    }


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Assert that a command line is refused in one line, and return that line."""
    assert cli.main(words) == 2
    streams = capsys.readouterr()
    assert streams.out == "" and streams.err.count("\n") == 1
    assert streams.err.startswith("parki: ")
    return streams.err


# --- info -------------------------------------------------------------------------------------


def test_info_as_json(capsys):
    assert cli.main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["parki"], found["numpy"]) == (parki.__version__, np.__version__)
    here = [name for name, state in found["spaces"].items() if state["available"]]
    assert here == parki.available_spaces()
    assert all(bool(s["reason"]) != s["available"] for s in found["spaces"].values())
    assert "PARKI_CACHE_DIR" in found["settings"]


def test_info_runs_no_program_but_the_compiler_and_python():
    """As SECURITY.md says."""
    code = """
    import os, sys
    from parki.cli import info
    ran = {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn"}
    sys.addaudithook(lambda event, words: event in ran and print(os.path.basename(words[0])))
    info.facts()
    """
    status, out, err = run_python(code, CXX=None)
    compiler = os.path.basename(host.compiler().command[0])
    assert status == 0 and set(out.split()) <= {compiler, os.path.basename(sys.executable)}, err


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
def test_info_names_the_mpi_library(monkeypatch):
    library = info.facts()["ranks"]
    assert "MPI" in library.upper() and "\n" not in library and "\0" not in library
    monkeypatch.setattr(info.sys, "executable", "/nowhere/python")
    assert info.facts()["ranks"].startswith("none: mpi4py finds no MPI library that works")
    monkeypatch.setattr(info, "_version", lambda _: None)
    assert "ranks       not installed" in info.text(info.facts())


def test_info_says_why_the_cache_is_unusable(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert cli.main(["info"]) == 0
    assert "(cannot be used: it is a file, or in one; 0 kernels" in capsys.readouterr().out


def test_tune_is_refused_where_its_result_would_be_lost(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(parki.UnavailableError, match="cannot take the result"):
        tune_report.show(parki.ExecutionSpace("Serial"), None)


# --- check ------------------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch):
    """Check one kernel, on few points."""
    monkeypatch.setattr(check, "SUMS", {"laplace": check.SUMS["laplace"]})
    monkeypatch.setattr(check, "POINTS", 200)


@pytest.mark.parametrize("words", [[], ["--space", "Serial"]])
def test_check(words, few, capsys):
    assert cli.main(["check", *words]) == 0
    text = capsys.readouterr().out
    for word in ("error over promise", "laplace", "float32", "3P", "OK: all", "promises"):
        assert word in text
    assert ("Serial:" in text) == bool(words)


@pytest.mark.slow
def test_check_of_everything(capsys):
    assert cli.main(["check", "--space", "CPU", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kept"] and found["seconds"] > 0
    cases = {(s["kernel"], s["periodicity"], s["dtype"]) for s in found["sums"]}
    assert len(cases) == len(found["sums"]) == 8 * len(SUMS)
    # Neither broken nor far from what is promised, which would mean that nothing is compared.
    assert all(1e-3 < s["error"] / s["promise"] < 1 for s in found["sums"])


@pytest.mark.parametrize("factor", [2.0, float("nan")])
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_broken_promise(factor, words, few, monkeypatch, capsys):
    right = check.check

    def wrong(*arguments: object) -> check.CheckedSum:
        found = right(*arguments)
        broken = found.dtype == "float32" and found.periodicity == 2
        return replace(found, error=factor * found.promise) if broken else found

    monkeypatch.setattr(check, "check", wrong)
    assert cli.main(["check", "--space", "OpenMP", *words]) == 1
    text = capsys.readouterr().out
    if words:
        found = json.loads(text)
        assert not found["kept"] and [s["kept"] for s in found["sums"]].count(False) == 1
    else:
        assert "broken" in text and "NOT OK: 1 of 8 promises" in text


def test_check_sees_a_wrong_sum(few, monkeypatch):
    right = check.direct_sum
    monkeypatch.setattr(check, "direct_sum", lambda *a, **k: 1.001 * right(*a, **k))
    assert cli.main(["check", "--space", "Serial"]) == 1


def test_pages_say_how_long_it_takes(capsys):
    assert cli.main(["check", "--help"]) == 0
    root = Path(__file__).parents[1]
    pages = [root / "README.md", root / "docs/install.md"]
    for text in (capsys.readouterr().out, *(page.read_text(encoding="utf-8") for page in pages)):
        assert "a minute or two" in " ".join(text.split())


def test_check_refuses_an_unknown_space(capsys):
    assert "execution_space is 'abacus'" in refused(["check", "--space", "abacus"], capsys)


# --- eval -------------------------------------------------------------------------------------


def test_eval(tmp_path, arrays):
    given, out = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, **arrays)
    words = ["--kernel", "stokes_comb", "--periodicity", "1", "--box", "1", "none", "1.5"]
    words += ["--tolerance", "1e-4", "--want", "u, p", "--space", "Serial"]
    assert cli.main(["eval", str(given), "-o", str(out), *words]) == 0
    options = parki.EwaldOptions(1, [1, None, 1.5], 1e-4, execution_space="Serial")
    plan = parki.Plan(
        "stokes_comb", arrays["trg"], arrays["src"], arrays["norms"], options, want=("u", "p")
    )
    u, p = plan(arrays["dens"])
    with np.load(out) as found:
        assert sorted(found.files) == ["options", "p", "u"]
        assert np.array_equal(found["u"], u) and np.array_equal(found["p"], p)
        used = json.loads(str(found["options"]))
    assert used["box"] == list(plan.box) and used["execution_space"] == "Serial"
    assert (used["kernel"], used["periodicity"], used["tolerance"]) == ("stokes_comb", 1, 1e-4)
    assert used["promise"] == dict(zip("up", plan.promise(arrays["dens"]), strict=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npz", "out.npz"]


def test_eval_of_stresses_of_dipoles(tmp_path, arrays):
    given, out = tmp_path / "in.npz", tmp_path / "out.npz"
    src = arrays["src"]
    dens = np.random.default_rng(0).standard_normal((3, 3, src.shape[1]))
    np.savez(given, src=src, dens=dens)
    words = ["--kernel", "stokes_dipole", "--box", "1", "1", "1.5", "--tolerance", "1e-4"]
    words += ["--want", "stress", "--space", "Serial"]
    assert cli.main(["eval", str(given), "-o", str(out), *words]) == 0
    options = parki.EwaldOptions(3, [1, 1, 1.5], 1e-4, execution_space="Serial")
    with np.load(out) as found:
        stress = parki.stokes_dipole(src, src, dens, options, want="stress")
        assert np.array_equal(found["stress"], stress)


def test_eval_of_several_densities(tmp_path, arrays, capsys):
    given, out, src = tmp_path / "in.npz", tmp_path / "out.npz", arrays["src"]
    dens = np.random.default_rng(0).standard_normal((2, src.shape[1]))
    np.savez(given, src=src, dens=dens)
    words = ["--kernel", "laplace", "--box", "1", "1", "1.5", "--tolerance", "1e-4", "--check"]
    assert cli.main(["eval", str(given), "-o", str(out), *words]) == 0
    assert capsys.readouterr().out.count("u: error") == 2
    options = parki.EwaldOptions(3, [1, 1, 1.5], 1e-4, execution_space="OpenMP")
    plan = parki.Plan("laplace", src, src, options)
    with np.load(out) as found:
        assert np.array_equal(found["u"], plan(dens))
        used = json.loads(str(found["options"]))
    assert used["promise"]["u"] == plan.promise(dens).tolist()
    assert all(each["error"] < each["promise"] for each in used["check"]["u"])


def test_eval_refuses_surplus_normals(tmp_path, arrays, capsys):
    given, out = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, src=arrays["src"], dens=arrays["src"], norms=arrays["src"])
    words = ["eval", str(given), "-o", str(out), "--kernel", "stokes_sl", "--box", "1", "1", "1.5"]
    assert "stokes_sl has no normals" in refused(words, capsys)
    assert not out.exists()


def test_eval_measures_the_error(tmp_path, arrays, capsys):
    given, out = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, **arrays)
    words = ["--kernel", "stokes_comb", "--periodicity", "1", "--box", "1", "none", "1.5"]
    words += ["--tolerance", "1e-4", "--want", "u,p", "--check"]
    assert cli.main(["eval", str(given), "-o", str(out), *words]) == 0
    lines = capsys.readouterr().out
    assert "\nu: error " in lines and "\np: error " in lines
    with np.load(out) as found:
        used = json.loads(str(found["options"]))
    for name in "up":
        assert 0 < used["check"][name]["error"] < used["promise"][name]


def test_eval_where_targets_are_sources(tmp_path, arrays):
    given, out = tmp_path / "in.npz", tmp_path / "out.npz"
    src, dens = arrays["src"].astype("f4"), arrays["dens"][0].astype("f4")
    np.savez(given, src=src, dens=dens)
    words = ["--kernel", "laplace", "--tolerance", "1e-3", "--box", "1", "1", "1"]
    assert cli.main(["eval", str(given), "-o", str(out), *words]) == 0
    exact = parki.reference.direct_sum("laplace", src, src, dens, box=(1, 1, 1), periodicity=3)
    with np.load(out) as found:
        promise = json.loads(str(found["options"]))["promise"]["u"]
        assert found["u"].dtype == np.float32
        assert np.sqrt(np.mean((found["u"] - exact) ** 2)) < promise


def test_eval_of_hdf5(tmp_path, arrays):
    h5py = pytest.importorskip("h5py")
    given, out, same = tmp_path / "in.h5", tmp_path / "out.hdf5", tmp_path / "out.npz"
    words = ["eval", str(given), "--kernel", "stokes_dl", "--box", "1", "1", "1", "-o"]
    with h5py.File(given, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    for path in (out, same):
        assert cli.main([*words, str(path)]) == 2
    with h5py.File(given, "a") as file:
        del file["dens"]
        file["dens"] = arrays["dens"][:3]
    for path in (out, same):
        assert cli.main([*words, str(path)]) == 0
    with h5py.File(out) as found, np.load(same) as expected:
        assert np.array_equal(found["u"][...], expected["u"])
        assert found.attrs["options"] == str(expected["options"])


def test_eval_of_hdf5_with_groups(tmp_path, capsys):
    """A group is not an array, whether its name is known or not."""
    h5py = pytest.importorskip("h5py")
    given, out = tmp_path / "in.h5", tmp_path / "out.npz"
    words = ["eval", str(given), "-o", str(out), "--kernel", "laplace", "--box", "1", "1", "1"]
    with h5py.File(given, "w") as file:
        file["src"], file["dens"] = np.zeros((3, 2)), np.zeros(2)
        file.create_group("targets")
    assert "has targets, which is not known; expected src, dens, norms, trg" in refused(
        words, capsys
    )
    with h5py.File(given, "a") as file:
        file.move("targets", "trg")
    assert "trg is a group; expected an array" in refused(words, capsys)
    with h5py.File(given, "a") as file:
        del file["trg"]
        file["trg"] = h5py.SoftLink("/nowhere")
    assert "which cannot be read" in refused(words, capsys)


@pytest.mark.parametrize(
    ("changes", "words", "message"),
    [
        ({"dens": None}, [], "no array dens; stokes_comb needs src, dens, norms"),
        ({"norms": None}, [], "but there is dens, src, trg"),
        (
            {"target": np.zeros((3, 2)), "trg": None},
            [],
            "has target, which is not known; expected src, dens, norms, trg",
        ),
        ({"a": np.zeros(1), "b": np.zeros(1)}, [], "has a, b, which are not known"),
        ({"src": np.zeros((300, 3)), "trg": None}, [], r"src has shape (300, 3); expected (3, N)"),
        ({"trg": np.zeros(3)}, [], "trg has shape (3,)"),
        ({"dens": np.zeros((3, 300))}, [], "rows 0-2 are the single layer's"),
        ({"norms": np.zeros((3, 2))}, [], "norms has shape (3, 2)"),
        ({"src": np.zeros((3, 300), int)}, [], "src has dtype int64; expected float32 or float64"),
        ({"src": np.zeros((3, 300), "f4")}, [], "give all arrays the same dtype"),
        ({"src": np.full((3, 300), np.nan)}, [], "src contains NaN"),
        ({"src": np.array([None])}, [], "which cannot be read"),
        ({}, ["--want", "u,vorticity"], "want has 'vorticity'"),
        ({}, ["--tolerance", "0"], "tolerance is 0.0"),
        ({}, ["--box", "none", "1", "1"], "axis 0 is periodic"),
        ({}, ["--box", "1", "1", "x"], "argument --box: 'x' is not a length; expected a number"),
        ({}, ["-o", "~no-such-user/x.npz"], "its folder does not exist"),
        ({}, ["-o", "x" * 300 + ".npz"], "File name too long"),
        ({}, ["--space", "abacus"], "execution_space is 'abacus'"),
        ({}, ["-o", "no/such/folder/x.npz"], "its folder does not exist"),
        ({}, ["-o", "x.txt"], "expected a name that ends in .npz"),
    ],
)
def test_eval_teaches(changes, words, message, tmp_path, arrays, capsys):
    given, out = tmp_path / "in.npz", tmp_path / "out.npz"
    kept = {name: values for name, values in {**arrays, **changes}.items() if values is not None}
    np.savez(given, **kept)
    line = ["eval", str(given), "-o", str(out), "--kernel", "stokes_comb"]
    line += ["--box", "1", "1", "1", *words]
    assert message in refused(line, capsys)
    assert not out.exists()


def test_eval_needs_the_lengths_of_periodic_axes(tmp_path, arrays, capsys):
    given, out = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, src=arrays["src"], dens=arrays["dens"][0])
    words = ["eval", str(given), "-o", str(out), "--kernel", "laplace", "--periodicity"]
    assert "box is missing, but periodicity is 1; give --box X Y Z" in refused(
        [*words, "1"], capsys
    )
    assert cli.main([*words, "0"]) == 0


def test_eval_of_files_that_are_none(tmp_path, capsys):
    given = tmp_path / "in.npz"
    words = ["eval", str(given), "--kernel", "laplace", "--box", "1", "1", "1", "-o"]
    out = str(tmp_path / "out.npz")
    assert "there is no such file" in refused([*words, out], capsys)
    np.savez(given, src=np.zeros((3, 99)))
    whole = given.read_bytes()
    method = whole.rindex(b"PK\1\2") + 10  # of compression, one that there is not
    odd = whole[:method] + b"\x7f" + whole[method + 1 :]
    for content in (b"", b"text", whole[:-30], whole[:50] + b"spoilt" + whole[56:], odd):
        given.write_bytes(content)
        refused([*words, out], capsys)
    assert "which is the input" in refused([*words, str(given)], capsys)


def test_eval_without_h5py(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(evaluate.importlib.util, "find_spec", lambda _: None)
    words = ["eval", "in.h5", "-o", str(tmp_path / "out.npz"), "--kernel", "laplace"]
    assert "pip install parki[hdf5]" in refused(words, capsys)


def test_eval_that_cannot_be_written(tmp_path, arrays, capsys):
    given, out = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, src=arrays["src"], dens=arrays["dens"][0])
    out.mkdir()
    words = ["eval", str(given), "-o", str(out), "--kernel", "laplace", "--box", "1", "1", "1"]
    assert "cannot be written" in refused(words, capsys)
    assert len(list(tmp_path.iterdir())) == 2


# --- cache ------------------------------------------------------------------------------------


def test_cache_list(folder, capsys):
    assert cli.main(["cache", "list"]) == 0
    text = capsys.readouterr().out
    for word in (str(folder), "kernels of the CPU", "tuned-x.json (0 kB"):
        assert word in text
    assert cli.main(["cache", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["folder"] == str(folder)
    assert [entry["bytes"] for entry in found["kernels"]] == [2000, 3000]
    assert [entry["file"] for entry in found["tuned"]] == ["tuned-x.json"]
    assert sum(entry["bytes"] for entry in found["upstream"]) == 300


def test_cache_clear(folder, capsys):
    assert cli.main(["cache", "clear"]) == 0
    text = capsys.readouterr().out
    for word in (str(folder), "2 kernels of the CPU (0.0 MB)", "1 measurements", "1 kernels of up"):
        assert word in text
    # What others put there, and what another process may be writing.
    assert {path.name for path in folder.iterdir()} == {f"{'d' * 40}x.tmp", *WITH_FOLDER}
    assert cli.main(["cache", "clear"]) == 0
    assert "nothing" in capsys.readouterr().out


@pytest.mark.parametrize("link", [False, True])
def test_a_users_folder_with_the_name_of_parkis(folder, tmp_path, capsys, link):
    upstream = folder / "pykokkos"
    (upstream / "mine").mkdir()
    (upstream / "notes.txt").touch()
    if link:
        upstream = upstream.rename(tmp_path / "elsewhere")
        (folder / "pykokkos").symlink_to(upstream)
    assert cli.main(["cache", "clear"]) == 0
    kept = {"mine", "notes.txt", *(["c" * 40] if link else [])}
    assert {path.name for path in upstream.iterdir()} == kept


def test_cache_that_is_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "none"))
    assert cli.main(["cache", "list", "--json"]) == cli.main(["cache", "clear"]) == 0
    assert "nothing" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_cache_that_cannot_be_cleared(folder, monkeypatch, capsys):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("not allowed")

    monkeypatch.setattr(cache_command.shutil, "rmtree", refuse)
    assert "1 files" in refused(["cache", "clear"], capsys)
    assert not list(folder.glob("*a.so"))


def test_place_of_a_cached_file(folder):
    assert cache.place("new") == folder / "new"
    assert cache.place("notes.txt") == folder / "notes.txt"


@pytest.mark.parametrize(
    "words", [["check"], ["eval"], ["bench"], ["cache"], ["cache", "list"], ["info"]]
)
def test_help(words, capsys):
    assert cli.main([*words, "--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 8


# --- bench ------------------------------------------------------------------------------------


def test_bench(capsys):
    words = ["bench", "--kernel", "laplace", "--periodicity", "1", "--tolerance", "1e-3"]
    words += ["--points", "300", "2000"]
    assert cli.main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kernel"], found["periodicity"], found["tolerance"]) == ("laplace", 1, 1e-3)
    assert [each["points"] for each in found["sums"]] == [300, 2000]
    for each in found["sums"]:
        assert set(each["stages"]) == set(each["predicted"]) == {"P2P", "P2G", "FGC", "G2P"}
        assert min(each["plan"], each["apply"], *each["stages"].values()) > 0
        assert each["points_per_second"] == each["points"] / each["apply"]
    assert cli.main(words) == 0
    text = capsys.readouterr().out
    assert text.startswith("laplace, 1 periodic axes, tolerance 0.001, float64; OpenMP: ")
    assert text.count("\n   ") and "2000" in text and "points/s" in text


def test_bench_of_steps(capsys, monkeypatch):
    monkeypatch.setattr(bench, "STEPS", 2)
    words = ["bench", "--steps", "--tolerance", "1e-3", "--points", "300", "500"]
    assert cli.main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each.pop("points") for each in found["steps"]] == [300, 500]
    for each in found["steps"]:
        assert set(each) == {"update", "apply", "step", "plan", "one_shot"}
        assert min(each.values()) > 0
    assert cli.main(words) == 0
    assert "one-shot" in capsys.readouterr().out


def test_bench_of_one_precision_and_space(capsys):
    words = ["bench", "--dtype", "float32", "--tolerance", "1e-2", "--points", "1", "--json"]
    assert cli.main([*words, "--space", "Serial"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["dtype"], found["space"]) == ("float32", "Serial")
    assert found["machine"].endswith("1 threads")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--points", "10", "0"], "points is 0; expected 1 or more"),
        (["--points", "10", "3000000000"], "points is 3000000000; expected at most 2147483647"),
        (["--dtype", "float32", "--tolerance", "1e-9"], "float32"),
        (["--space", "abacus"], "execution_space is 'abacus'"),
    ],
)
def test_bench_teaches(words, message, capsys):
    assert message in refused(["bench", *words], capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--points", "-1"], "points is -1; expected 1 or more"),
        (["--points", "0"], "points is 0; expected 1 or more"),
        (["--tolerance", "nan"], "tolerance is nan; expected a positive number"),
        (["--dtype", "float32", "--tolerance", "1e-9"], "float32"),
    ],
)
def test_tune_teaches_before_it_measures(words, message, monkeypatch, capsys):
    monkeypatch.setattr(tune_report, "show", lambda *_: pytest.fail("it measures"))
    assert message in refused(["tune", "--measure", *words], capsys)


@pytest.mark.parametrize("words", [["bench"], ["tune", "--measure"], ["demo"]], ids=" ".join)
def test_points_that_memory_does_not_hold(words, monkeypatch, capsys):
    monkeypatch.setattr("parki.cli.arguments.free_memory", lambda _: 9e6)
    line = refused([*words, "--points", "100000"], capsys)
    assert "points is 100000, whose arrays alone need 9.6 MB, but 9 MB are free" in line


def test_memory_that_ran_out(monkeypatch, capsys):
    def refuse() -> None:
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr(info, "facts", refuse)
    assert "memory ran out: Unable to allocate 9 GiB" in refused(["info"], capsys)


def test_bench_shows_milliseconds_to_three_digits():
    shown = [bench._milliseconds(s) for s in (1.234e-6, 1.234e-3, 0.0996, 12.34)]
    assert shown == ["0.00123", "1.23", "100", "12340"]
