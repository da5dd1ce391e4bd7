"""The cases of `scripts/benchmark.py` run at a tiny size, are shown, drawn and published.

What is timed is not asserted; that the variants compute the same is.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import benchmark  # noqa: E402
import choices  # noqa: E402
from benchmarks import FOLDERS, case, page, record  # noqa: E402
from benchmarks.run import TINY, Run  # noqa: E402
from cases import calls, floor  # noqa: E402

from parki import get_execution_space  # noqa: E402

# Sums are added in another order; 14 units of the largest value were seen.
ROUNDING = 60
MEASURED = (*FOLDERS["benchmarks"], "floor")
# Files and calls of parki's own functions, a little above those of two threads. The time of small
# sums follows them: raise one only for something that users gain more by.
MOST_CALLS = {
    "parki.stokes_comb(...)": (42, 310),
    "plan(dens)": (28, 110),
    "plan.update_points(...)": (50, 290),
    "parki.energy(...)": (45, 340),
    "forces of parki.torch, backward": (46, 440),
    "a loss on forces, backward": (46, 590),
    "a loss on the stress, backward": (56, 720),
    "Spheres.displacements near a wall": (76, 4050),
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Every table and figure, measured once."""
    path = tmp_path_factory.mktemp("benchmarks") / "all.json"
    assert benchmark.main(["benchmarks", "floor", "--quick", "--json", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def results(file):
    """The numbers by table and figure."""
    return {found["kind"]: found["results"] for found in record.read([file])}


def test_records_say_what_they_are_of(file):
    records = record.read([file])
    assert [found["kind"] for found in records] == list(MEASURED)
    for found in records:
        assert found["machine"]["name"]
        assert {"parki", "python", "numpy", "scipy", "compiler"} <= set(found["versions"])
        assert found["settings"] == {"space": "OpenMP", "points": None, "quick": True, "seed": 7}


def test_results(results):
    """Variants compute the same, and stages take what is said."""
    (found,) = results["table6"]["cases"]
    methods = [row["method"] for row in found["rows"]]
    assert methods == "staged tile gm1d gm2d sm1d sm2d gm1d sm1d".split()
    assert all(row["seconds"] > 0 and row["difference"] < 1e-13 for row in found["rows"])
    # 4 pi / 3 times 30 sources, less what is beyond the free faces.
    assert 40 < found["pairs"] / TINY < 126
    for table, variants in (("table7", 6), ("table8", 3)):
        rows = results[table]["rows"]
        assert len(rows) == variants
        assert all(row["seconds"] > 0 and row["differs"] < ROUNDING for row in rows)
    for row in (
        row for table in ("table9", "table10", "figure9") for row in results[table]["rows"]
    ):
        assert math.isclose(row["apply"], sum(row["stages"].values()), rel_tol=1e-3)
        assert row["one_shot"] > 0
    assert len(results["floor"]["cases"]) == len(floor.PLANS)
    for each in results["floor"]["cases"].values():
        assert min(found["floor"] for found in each["stages"].values()) > 0
        # P2G has all components, G2P those of the result.
        p2g, g2p = (each["stages"][stage]["operations"] for stage in ("P2G", "G2P"))
        assert g2p <= p2g <= 3 * g2p


def test_shown_again_and_drawn(file, tmp_path, capsys):
    """As on a device, where the paper's numbers are drawn beside parki's; nothing is measured."""
    pytest.importorskip("matplotlib")
    records = record.read([file])
    for found in records:
        found["settings"]["space"] = "Cuda"
    changed = tmp_path / "device.json"
    changed.write_text(json.dumps(records), encoding="utf-8")
    assert benchmark.main(["--from", str(changed), "--draw", str(tmp_path / "p.png")]) == 0
    text = capsys.readouterr().out
    assert all(f"\n{kind.capitalize()}. " in text for kind in MEASURED)
    assert "| SM-2D, " not in text and "| SM-2D " in text
    assert "| hybrid " in text
    assert "\n\n\n\n" not in text
    changed.unlink()
    drawn = {f"p-{kind}.png" for kind in MEASURED if case(kind).draw}
    assert {path.name for path in tmp_path.iterdir()} == drawn != set()


@pytest.mark.parametrize("name", page.PAGES)
def test_pages_are_written_from_the_results(name):
    """Nobody wrote into their tables by hand, and each case of a page has some."""
    text = benchmark.text(name)
    assert (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") == text
    pictures = re.findall(r"\]\((images/.*?)\)", text)
    assert pictures and all((ROOT / "docs" / picture).is_file() for picture in pictures)
    cases = list(FOLDERS.get(name, (name,)))
    assert {found["kind"] for found in page.results(name)} == set(cases)
    assert [place[2] for place in page.PLACE.finditer(text)] == cases
    for kind in cases:
        title, heading = case(kind).about
        assert f" {title}: {heading}\n" in text
        assert f"`python scripts/benchmark.py {kind}`" in text


def test_pages_are_written(file, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(page, "DOCS", tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "floor-here.json").write_bytes(file.read_bytes())
    before, after = (
        "# A page\n\n<!-- floor: written by a script -->\n\n",
        "\n<!-- end of floor -->\n",
    )
    (tmp_path / "floor.md").write_text(before + "old" + after, encoding="utf-8")
    assert benchmark.main(["--docs", "floor"]) == 0
    text = (tmp_path / "floor.md").read_text(encoding="utf-8")
    assert text.startswith(before) and text.endswith(after) and "old" not in text
    assert text.count("| P2G ") == len(floor.PLANS)
    assert all((tmp_path / name).is_file() for name in re.findall(r"\]\((images/.*?)\)", text))


def test_calls_are_few(monkeypatch):
    monkeypatch.setenv("PARKI_NUM_THREADS", "2")  # a thread has parts of its own
    run = Run(get_execution_space("CPU"), quick=True)
    rows = calls.measure(run)["parki's own functions"]
    seen = {row["what"]: (row["files"], row["calls"]) for row in rows}
    assert seen.keys() == MOST_CALLS.keys()
    for what, (files, count) in MOST_CALLS.items():
        assert seen[what][0] <= files and seen[what][1] <= count, (what, seen[what])


def test_a_stopped_run_leaves_its_rows_and_runs_are_joined(tmp_path, monkeypatch, capsys):
    """Two runs of one case, the first of which is stopped after its first row."""

    def measure(run, name, more):
        rows = [{"N": 60, "dtype": "f4", "asked": 1e-3, "solver": name, "reason": "slow"}]
        results = {"rows": rows, "left out": {}, "packages": [f"{name} 1"]}
        run.keep(results)
        rows += more()
        return results

    def stop():
        raise KeyboardInterrupt

    one, two, both = (tmp_path / f"{name}.json" for name in ("one", "two", "both"))
    for file, name, more in ((one, "quick", stop), (two, "slow", list)):
        made = replace(case("charges"), measure=partial(measure, name=name, more=more))
        monkeypatch.setattr(benchmark, "case", lambda name, made=made: made)
        with pytest.raises(KeyboardInterrupt) if more is stop else nullcontext():
            benchmark.main(["charges", "--json", str(file)])
    benchmark.main(["--from", str(one), str(two), "--join", "--json", str(both)])
    (found,) = record.read([both])
    assert [row["solver"] for row in found["results"]["rows"]] == ["quick", "slow"]
    assert "Libraries: quick 1, slow 1." in capsys.readouterr().out


def test_cases_are_listed(capsys):
    assert benchmark.main([]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(benchmark.NAMES)
    with pytest.raises(SystemExit):
        benchmark.main(["table4"])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FOLDERS["cases"] if name not in MEASURED])
def test_cases_run(name, tmp_path):
    file = tmp_path / "case.json"
    assert benchmark.main([name, "--quick", "--tolerance", "1e-2", "--json", str(file)]) == 0
    if name != "trace":  # which a GPU has
        (found,) = record.read([file])
        assert all(table.rows for table in benchmark.tables(found))


@pytest.mark.slow
def test_comparisons_run(tmp_path):
    for peer in ("finufft", "fmm3dpy"):
        if importlib.util.find_spec(peer) is None:
            pytest.skip(f"{peer} is not installed")
    file = tmp_path / "papers.json"
    assert benchmark.main(["papers", "--quick", "--json", str(file)]) == 0
    kinds = [kind for kind in FOLDERS["papers"] if kind != "dmk" or "DMK_LIBRARY" in os.environ]
    assert [found["kind"] for found in record.read([file])] == kinds
    pytest.importorskip("matplotlib")
    assert benchmark.main(["--from", str(file), "--draw", str(tmp_path / "p.png")]) == 0
    assert len([*tmp_path.glob("*.png")]) == len(kinds)


def test_spheres_without_and_with_a_peer(monkeypatch, tmp_path, capsys):
    """A module with libMobility's calls is a peer; without one the script says so, and goes on."""
    file = tmp_path / "spheres.json"
    for name, solvers in (("none_such", ["parki"]), ("parki.libmobility", ["parki", "PSE", "FCM"])):
        monkeypatch.setenv("LIBMOBILITY", name)
        assert benchmark.main(["spheres", "--quick", "--json", str(file)]) == 0
        (found,) = record.read([file])
        rows = found["results"]["rows"]
        assert [row["solver"] for row in rows] == solvers
        for row in rows:
            assert 0 < row["error"] <= row["asked"]
            assert row["M F"] > 0 and row["step"] > 0
        left_out = "left out: No module named 'none_such'" in capsys.readouterr().out
        assert left_out == (name == "none_such")


@pytest.mark.slow
def test_spheres_between_walls_with_a_peer(monkeypatch, tmp_path):
    """Errors of the peer are told from its velocities alone, and parki's are no larger."""
    file = tmp_path / "slit.json"
    monkeypatch.setenv("LIBMOBILITY", "parki.libmobility")
    assert benchmark.main(["dpstokes", "--quick", "--json", str(file)]) == 0
    ((row,),) = (found["results"]["rows"] for found in record.read([file]))
    ours, theirs = row["parki"], row["DPStokes"]
    assert 0 < ours["error"] <= theirs["error"] < 1e-3 and theirs["apart"] < 1e-3
    assert min(ours["M F"], ours["step"], theirs["M F"], theirs["step"]) > 0


def test_the_page_of_choices_is_that_of_the_results():
    files = sorted((ROOT / "docs" / "results").glob("choices-*.json"))
    assert files
    text = (page.DOCS / "choices.md").read_text(encoding="utf-8")
    assert text == choices.page([json.loads(f.read_text()) for f in files])


def test_the_page_of_scaling_is_that_of_the_results():
    pytest.importorskip("mpi4py")
    import scaling

    text = scaling.text(page.results("scaling"))
    assert (page.DOCS / "scaling.md").read_text(encoding="utf-8") == text


@pytest.mark.slow
def test_choices_runs(tmp_path, monkeypatch):
    few = [choices.timing.TimedPlan(choices.KERNEL, 3, 1e-2, 300)]
    monkeypatch.setattr(choices, "tasks", lambda *_: few)
    path = tmp_path / "choices.json"
    monkeypatch.setattr(sys, "argv", ["choices.py", "--space", "Serial", "--output", str(path)])
    choices.main()
    (row,) = json.loads(path.read_text())["rows"]
    assert row["tried"] > 4
    assert row["visits"] == choices.VISITS <= len(row["compared"])
    assert choices.medians(row)["over"] >= 1
    assert "| 0.01 | 3, uniform |" in choices.page([json.loads(path.read_text())])
    # What the file has is not timed again, and other machines' files take no tasks.
    few.append(choices.timing.TimedPlan(choices.KERNEL, 3, 1e-2, 200))
    choices.main()
    rows = json.loads(path.read_text())["rows"]
    assert rows[0] == row
    assert [r["points"] for r in rows] == [300, 200]
    path.write_text(json.dumps({"machine": "another", "numbers": "its own", "rows": []}))
    with pytest.raises(SystemExit):
        choices.main()
