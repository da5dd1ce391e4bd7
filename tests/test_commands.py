"""The commands ``parki check``, ``eval`` and ``cache``, and JSON: results, messages, exit codes."""

import importlib.util
import json
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from small_kernels import run_python

import parki
from parki.cli import bench, check, info, tune
from parki.cli import cache as cache_command
from parki.cli import main as cli
from parki.ewald.choice import machines
from parki.ewald.choice.cost import STAGES
from parki.ewald.sums import SUMS
from parki.runtime import host

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


def test_info_says_when_the_machine_was_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path))
    machines.clear()
    assert "OpenMP never, by costs of an AVX-512 server" in info.facts()["measured"]
    space = parki.ExecutionSpace("OpenMP")
    path = tune.save(space, dict.fromkeys(tune.PRECISIONS, dict.fromkeys(STAGES, 2.0)))
    os.utime(path, (1e9, 1e9))
    assert "OpenMP on 2001-09-0" in info.facts()["measured"]
    machines.clear()


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
        tune.show(parki.ExecutionSpace("Serial"), None)


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

    def wrong(*arguments: object, **keywords: object) -> check.CheckedSum:
        found = right(*arguments, **keywords)
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


# --- eval -------------------------------------------------------------------------------------


@pytest.fixture
def evaluate(tmp_path):
    """Return what calls `parki eval` on arrays and gives its results and its options."""

    def run(arrays, *words):
        given, out = tmp_path / "in.npz", tmp_path / "out.npz"
        np.savez(given, **arrays)
        assert cli.main(["eval", str(given), "-o", str(out), *words]) == 0
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npz", "out.npz"]
        with np.load(out) as found:
            results = dict(found)
        return results, json.loads(str(results.pop("options")))

    return run


BRICK = "--box 1 1 1.5 --tolerance 1e-4".split()


@pytest.mark.parametrize(
    ("kernel", "rows", "dtype", "words"),
    [
        ("stokes_comb", (6,), "f8", ("--periodicity", "1", "--want", "u, p", "--check")),
        ("stokes_dipole", (3, 3), "f8", ("--want", "stress")),
        ("laplace", (2,), "f8", ("--check",)),  # several densities
        ("laplace", (), "f4", ()),
    ],
)
def test_eval(kernel, rows, dtype, words, evaluate, arrays, capsys):
    """Results, promises and measured errors are those of a plan."""
    given = {"src": arrays["src"], "dens": np.random.default_rng(0).standard_normal((*rows, 300))}
    box, periodicity = ["1", "1", "1.5"], 3
    if kernel == "stokes_comb":
        given |= {"trg": arrays["trg"], "norms": arrays["norms"]}
        box[1], periodicity = "none", 1
    given = {name: values.astype(dtype) for name, values in given.items()}
    words = ("--kernel", kernel, "--tolerance", "1e-4", "--space", "Serial", *words, "--box", *box)
    found, used = evaluate(given, *words)
    edges = [None if edge == "none" else float(edge) for edge in box]
    options = parki.EwaldOptions(periodicity, edges, 1e-4, execution_space="Serial")
    points = given.get("trg", given["src"]), given["src"], given.get("norms")
    plan, dens = parki.Plan(kernel, *points, options, want=(*found,)), given["dens"]
    assert used["box"] == list(plan.box) and used["execution_space"] == "Serial"
    assert (used["kernel"], used["periodicity"], used["tolerance"]) == (kernel, periodicity, 1e-4)
    lines = capsys.readouterr().out
    for name, values, promise in zip(found, plan(dens), plan.promise(dens), strict=True):
        assert found[name].dtype == dtype and np.array_equal(found[name], values)
        assert np.array_equal(used["promise"][name], promise)
        if "--check" in words:
            each = used["check"][name]
            each = each if isinstance(each, list) else [each]
            assert lines.count(f"\n{name}: error ") == len(each) == np.size(promise)
            assert all(0 < one["error"] < one["promise"] for one in each)


def test_eval_of_hdf5(tmp_path, arrays, capsys):
    h5py = pytest.importorskip("h5py")
    given, out, same = tmp_path / "in.h5", tmp_path / "out.hdf5", tmp_path / "out.npz"
    words = ["eval", str(given), "--kernel", "stokes_dl", "--box", "1", "1", "1", "-o"]
    with h5py.File(given, "w") as file:
        for name, values in (arrays | {"dens": arrays["dens"][:3]}).items():
            file[name] = values
    for path in (out, same):
        assert cli.main([*words, str(path)]) == 0
    with h5py.File(out) as found, np.load(same) as expected:
        assert np.array_equal(found["u"][...], expected["u"])
        assert found.attrs["options"] == str(expected["options"])
    capsys.readouterr()
    # A group is not an array, whether its name is known or not.
    with h5py.File(given, "a") as file:
        file.create_group("targets")
    message = "has targets, which is not known; expected src, dens, norms, trg"
    assert message in refused([*words, str(out)], capsys)
    with h5py.File(given, "a") as file:
        del file["trg"]
        file.move("targets", "trg")
    assert "trg is a group; expected an array" in refused([*words, str(out)], capsys)
    with h5py.File(given, "a") as file:
        del file["trg"]
        file["trg"] = h5py.SoftLink("/nowhere")
    assert "which cannot be read" in refused([*words, str(out)], capsys)


@pytest.mark.parametrize(
    ("changes", "words", "message"),
    [
        ({"dens": None}, "", "no array dens; stokes_comb needs src, dens, norms"),
        ({"norms": None}, "", "but there is dens, src, trg"),
        ({"target": np.zeros((3, 2)), "trg": None}, "", "has target, which is not known; expected"),
        ({"a": np.zeros(1), "b": np.zeros(1)}, "", "has a, b, which are not known"),
        ({"src": np.zeros((300, 3)), "trg": None}, "", "src has shape (300, 3); expected (3, N)"),
        ({"trg": np.zeros(3)}, "", "trg has shape (3,)"),
        ({"dens": np.zeros((3, 300))}, "", "rows 0-2 are the single layer's"),
        ({"norms": np.zeros((3, 2))}, "", "norms has shape (3, 2)"),
        ({"src": np.zeros((3, 300), int)}, "", "src has dtype int64; expected float32 or float64"),
        ({"src": np.zeros((3, 300), "f4")}, "", "give all arrays the same dtype"),
        ({"src": np.full((3, 300), np.nan)}, "", "src contains NaN"),
        ({"src": np.array([None])}, "", "which cannot be read"),
        ({"dens": np.zeros((3, 300))}, "--kernel stokes_sl", "stokes_sl has no normals"),
        ({}, "--want u,vorticity", "want has 'vorticity'"),
        ({}, "--tolerance 0", "tolerance is 0.0"),
        ({}, "--box none 1 1", "axis 0 is periodic"),
        ({}, "--box 1 1 x", "argument --box: 'x' is not a length; expected a number"),
        ({}, "-o ~no-such-user/x.npz", "its folder does not exist"),
        ({}, f"-o {'x' * 300}.npz", "File name too long"),
        ({}, "--space abacus", "execution_space is 'abacus'"),
        ({}, "-o no/such/folder/x.npz", "its folder does not exist"),
        ({}, "-o x.txt", "expected a name that ends in .npz"),
        ({}, "-o {in}", "which is the input"),
        ({}, "-o {folder}", "cannot be written"),
    ],
)
def test_eval_teaches(changes, words, message, tmp_path, arrays, capsys):
    given, out, folder = (tmp_path / name for name in ("in.npz", "out.npz", "folder.npz"))
    folder.mkdir()
    kept = {name: values for name, values in {**arrays, **changes}.items() if values is not None}
    np.savez(given, **kept)
    line = ["eval", str(given), "-o", str(out), "--kernel", "stokes_comb", *BRICK]
    more = words.replace("{in}", str(given)).replace("{folder}", str(folder))
    assert message in refused([*line, *more.split()], capsys)
    assert {*tmp_path.iterdir()} == {given, folder}


def test_eval_needs_the_lengths_of_periodic_axes(evaluate, tmp_path, arrays, capsys):
    few = {"src": arrays["src"], "dens": arrays["dens"][0]}
    evaluate(few, "--kernel", "laplace", "--periodicity", "0")
    capsys.readouterr()
    words = ["eval", str(tmp_path / "in.npz"), "-o", str(tmp_path / "other.npz")]
    line = refused([*words, "--kernel", "laplace", "--periodicity", "1"], capsys)
    assert "box is missing, but periodicity is 1; give --box X Y Z" in line


def test_eval_of_files_that_are_none(tmp_path, monkeypatch, capsys):
    given, out = tmp_path / "in.npz", str(tmp_path / "out.npz")
    words = ["--kernel", "laplace", "--box", "1", "1", "1", "-o", out]
    assert "there is no such file" in refused(["eval", str(given), *words], capsys)
    np.savez(given, src=np.zeros((3, 99)))
    whole = given.read_bytes()
    method = whole.rindex(b"PK\1\2") + 10  # of compression, one that there is not
    odd = whole[:method] + b"\x7f" + whole[method + 1 :]
    for content in (b"", b"text", whole[:-30], whole[:50] + b"spoilt" + whole[56:], odd):
        given.write_bytes(content)
        refused(["eval", str(given), *words], capsys)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "pip install h5py" in refused(["eval", "in.h5", *words], capsys)


# --- cache ------------------------------------------------------------------------------------


def test_cache(folder, capsys):
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


# --- bench ------------------------------------------------------------------------------------


def test_bench(capsys, monkeypatch):
    """It has sums and steps, with the same numbers as the text."""
    monkeypatch.setattr(bench, "STEPS", 2)
    words = "bench --kernel laplace --periodicity 3 --tolerance 1e-3 --points 300 500".split()
    found = {}
    for more in ([], ["--steps"]):
        assert cli.main([*words, *more, "--json"]) == 0
        found |= json.loads(capsys.readouterr().out)
        assert cli.main([*words, *more]) == 0
        text = capsys.readouterr().out
        assert text.startswith("laplace, 3 periodic axes, tolerance 0.001, float64; OpenMP: ")
        assert text.count("\n   ") and "500" in text
        assert ("one-shot" if more else "points/s") in text
    assert (found["kernel"], found["periodicity"], found["tolerance"]) == ("laplace", 3, 1e-3)
    for each in found["sums"]:
        assert set(each["stages"]) == set(each["predicted"]) == {"P2P", "P2G", "FGC", "G2P"}
        assert min(each["plan"], each["apply"], *each["stages"].values()) > 0
        assert each["points_per_second"] == each["points"] / each["apply"]
    for kind in ("sums", "steps"):
        assert [each.pop("points") for each in found[kind]] == [300, 500]
    for each in found["steps"]:
        assert set(each) == {"update", "apply", "step", "plan", "one_shot"}
        assert min(each.values()) > 0
    words = "bench --dtype float32 --tolerance 1e-2 --points 1 --json --space Serial"
    assert cli.main(words.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["dtype"], found["space"]) == ("float32", "Serial")
    assert found["machine"].endswith("1 threads")


TOO_MANY = "expected at most 2147483647"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("check --space abacus", "execution_space is 'abacus'"),
        ("bench --points 10 0", "points is 0; expected 1 or more"),
        ("bench --points 10 3000000000", f"points is 3000000000; {TOO_MANY}"),
        ("bench --dtype float32 --tolerance 1e-9", "float32 holds"),
        ("bench --space abacus", "execution_space is 'abacus'"),
        ("tune --measure --points -1", "points is -1; expected 1 or more"),
        ("tune --measure --points 0", "points is 0; expected 1 or more"),
        ("tune --measure --tolerance nan", "tolerance is nan; expected a positive number"),
        ("tune --measure --dtype float32 --tolerance 1e-9", "float32 holds"),
        ("demo --points 10", "points is 10; expected at least 1000"),
        ("demo --tolerance -1", "tolerance is -1"),
        ("demo --tolerance 1e-9 --dtype float32", "float32 holds"),
        ("demo --space abacus", "execution_space is 'abacus'"),
        ("demo --output no/such/folder/x.png", "folder does not exist"),
        ("demo --output ~no-such-user/x.png", "folder does not exist"),
        ("demo --output x.foo", "output is x.foo; expected a name that ends in .png"),
        ("demo --output x", "output is x; expected a name that ends in .png"),
        (f"demo --output {'x' * 300}.png", "File name too long"),
        ("demo --seed -1", "seed is -1; expected 0 or more"),
        ("demo --points 30000000000", f"points is 30000000000; {TOO_MANY}"),
        ("demo --points 1e6", "argument --points: '1e6' is not a whole number"),
        ("demo --tolerance tight", "argument --tolerance: 'tight' is not a number"),
        ("demo --dtype float16", "argument --dtype: invalid choice: 'float16'"),
        ("demo --speed 9", "unrecognized arguments: --speed 9; see 'parki --help'"),
    ],
)
def test_impossible_requests(line, message, monkeypatch, capsys):
    monkeypatch.setattr(tune, "show", lambda *_: pytest.fail("it measures"))
    assert message in refused(line.split(), capsys)


@pytest.mark.parametrize(
    "command", ["", "check", "eval", "bench", "cache", "cache list", "info", "demo"]
)
def test_help(command, capsys):
    assert cli.main([*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) >= 8 and "parki" in text
    if not command:
        assert cli.main([]) == 0
        assert capsys.readouterr().out == text and "demo" in text


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
