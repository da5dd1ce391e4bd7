"""The benchmarks run: every table and figure, measured at a tiny size, shown, drawn and published.

What is timed is not asserted; that the variants compute the same is.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import benchmark  # noqa: E402
import choices  # noqa: E402
import clouds  # noqa: E402
import floor  # noqa: E402
from benchmarks import models, page, record, table9  # noqa: E402
from benchmarks.ceilings import Ceilings  # noqa: E402
from benchmarks.run import TINY  # noqa: E402

# Sums are added in another order; 14 units of the largest value were seen.
ROUNDING = 60
RESULTS = sorted((ROOT / "docs" / "results").glob("benchmarks-*.json"))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Every table and figure, measured once."""
    path = tmp_path_factory.mktemp("benchmarks") / "all.json"
    assert benchmark.main(["--all", "--quick", "--json", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def results(file):
    """The numbers by table and figure."""
    return {found["kind"]: found["results"] for found in record.read([file])}


def test_records_say_what_they_are_of(file):
    records = record.read([file])
    assert [found["kind"] for found in records] == list(benchmark.KINDS)
    for found in records:
        assert found["machine"]["name"]
        assert {"parki", "python", "numpy", "scipy", "compiler"} <= set(found["versions"])
        assert found["settings"] == {"space": "OpenMP", "points": None, "quick": True, "seed": 7}


def test_near_field(results):
    (case,) = results["table 6"]["cases"]
    methods = [row["method"] for row in case["rows"]]
    assert methods == "staged tile gm1d gm2d sm1d sm2d gm1d sm1d".split()
    assert all(row["seconds"] > 0 and row["difference"] < 1e-13 for row in case["rows"])
    # 4 pi / 3 times 30 sources, less what is beyond the free faces.
    assert 40 < case["pairs"] / TINY < 126


@pytest.mark.parametrize(("table", "variants"), [("table 7", 6), ("table 8", 3)])
def test_spreading_and_gathering(results, table, variants):
    rows = results[table]["rows"]
    assert len(rows) == variants
    assert all(row["seconds"] > 0 and row["differs"] < ROUNDING for row in rows)


@pytest.mark.parametrize("table", ["table 9", "table 10", "figure 9"])
def test_whole_sums(results, table):
    for row in results[table]["rows"]:
        assert math.isclose(row["apply"], sum(row["stages"].values()), rel_tol=1e-3)
        assert row["one_shot"] > 0


def test_shown_again(file, capsys):
    assert benchmark.main(["--from", str(file)]) == 0
    text = capsys.readouterr().out
    for kind in benchmark.KINDS:
        assert f"\n{kind.capitalize()}. " in text
    assert "| SM-2D, " not in text and "| SM-2D " in text
    assert "| hybrid " in text
    assert "\n\n\n\n" not in text


def test_drawn(file, tmp_path):
    """As on a device, where the paper's numbers are drawn beside parki's; nothing is measured."""
    pytest.importorskip("matplotlib")
    records = record.read([file])
    for found in records:
        found["settings"]["space"] = "Cuda"
    changed = tmp_path / "device.json"
    changed.write_text(json.dumps(records), encoding="utf-8")
    assert benchmark.main(["--from", str(changed), "--draw", str(tmp_path / "p.png")]) == 0
    changed.unlink()
    drawn = {f"p-{kind.replace(' ', '')}.png" for kind in benchmark.KINDS}
    assert {path.name for path in tmp_path.iterdir()} == drawn


def test_published(file, tmp_path):
    pytest.importorskip("matplotlib")
    assert benchmark.main(["--docs", str(file), "--page", str(tmp_path / "page.md")]) == 0
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    for kind in benchmark.KINDS:
        assert f"\n## {kind.capitalize()}: " in text
    for found in record.read([file]):
        if found["kind"] in page.DRAWN:
            assert (tmp_path / page.picture(found)).is_file()


def test_docs_are_written_from_the_results():
    text = page.page(record.read(RESULTS), benchmark.tables, benchmark.about)
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == text


def test_nothing_to_do():
    with pytest.raises(SystemExit):
        benchmark.main([])


# ---------------------------------------------------------------------- what is counted, and drawn
@pytest.mark.parametrize("cell_size", [30, 224, 1000])
@pytest.mark.parametrize("tile", [4, 8, 16])
def test_tiles_look_at_more_than_the_pairs(cell_size, tile):
    seen = models.tile_candidates(cell_size, tile)
    assert 4 / 3 * math.pi * cell_size < seen < 27 * cell_size


def test_models_from_pessimistic_to_optimistic():
    work = models.Work(flops=1e9, least=1e6, moved=1e9, staged=1e8)
    seconds = work.seconds(Ceilings(bandwidth=1e9, flops=1e9, roots=1e8))
    assert list(seconds) == list(models.MODELS)
    assert sorted(seconds.values(), reverse=True) == list(seconds.values())
    assert seconds["Tf"] == 1


@pytest.mark.parametrize("letter", "UNS")
def test_distributions_are_in_the_cube(letter):
    points = table9.draw_points(letter, 20_000, np.random.default_rng(1))
    assert points.shape == (3, 20_000)
    assert ((points >= 0) & (points < 1)).all()
    assert np.abs(points.mean(axis=1) - 0.5).max() < 0.01
    distance = np.linalg.norm(points - 0.5, axis=0)
    # The normal distribution would have 0.3 without the cut at 1.67 deviations.
    spread = {"U": 0.289, "N": 0.2387, "S": 0.289}[letter]
    assert np.abs(points.std(axis=1) - spread).max() < 0.005
    if letter == "S":
        assert np.ptp(distance) < 1e-12


def test_the_page_of_choices_is_that_of_the_results():
    files = sorted((ROOT / "docs" / "results").glob("choices-*.json"))
    assert files
    assert choices.PAGE.read_text() == choices.page([json.loads(f.read_text()) for f in files])


@pytest.mark.slow
def test_choices_runs(tmp_path, monkeypatch):
    few = [choices.tune.TimedPlan(choices.KERNEL, 3, 1e-2, 300)]
    monkeypatch.setattr(choices, "tasks", lambda *_: few)
    path = tmp_path / "choices.json"
    monkeypatch.setattr(sys, "argv", ["choices.py", "--space", "Serial", "--output", str(path)])
    choices.main()
    (row,) = json.loads(path.read_text())["rows"]
    assert row["tried"] > 4
    assert row["visits"] == choices.VISITS <= len(row["compared"])
    assert choices.medians(row)["over"] >= 1
    assert "| 300 | 0.01 | 3 | uniform |" in choices.page([json.loads(path.read_text())])
    # What the file has is not timed again, and other machines' files take no tasks.
    few.append(choices.tune.TimedPlan(choices.KERNEL, 3, 1e-2, 200))
    choices.main()
    rows = json.loads(path.read_text())["rows"]
    assert rows[0] == row
    assert [r["points"] for r in rows] == [300, 200]
    path.write_text(json.dumps({"machine": "another", "numbers": "its own", "rows": []}))
    with pytest.raises(SystemExit):
        choices.main()


def test_pairs_of_clouds():
    """Those within the cut-off, through the faces that repeat too; each point is one of its own."""
    rng = np.random.default_rng(0)
    for points in clouds.clouds(300, rng).values():
        apart = points[:, :, None] - points[:, None]
        apart[0] -= np.round(apart[0])
        expected = (np.linalg.norm(apart, axis=0) <= 0.15).sum()
        assert clouds.pairs(points, 0.15, rng) == pytest.approx(expected)


def test_clouds_are_timed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["clouds.py", "--points", "500", "--tolerance", "1e-2"])
    clouds.main()
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[1].strip() for row in rows] == ["uniform", "clustered", "sphere", "two scales"]
    assert float(rows[0][-1]) == 1
    assert all(float(cell) > 0 for row in rows for cell in row[2:])


def test_floors(tmp_path, monkeypatch):
    path = tmp_path / "floor.json"
    monkeypatch.setattr(sys, "argv", ["floor.py", "--quick", "--json", str(path)])
    floor.main()
    monkeypatch.setattr(floor, "PAGE", tmp_path / "floor.md")
    monkeypatch.setattr(sys, "argv", ["floor.py", "--docs", str(path)])
    floor.main()
    text = floor.PAGE.read_text()
    assert text.count("| P2G |") == len(floor.CASES) == text.count("### ")
    (found,) = record.read([path])
    for case in found["results"]["cases"].values():
        p2p, p2g, fgc, g2p = (case["stages"][stage] for stage in floor.STAGES)
        assert min(x["floor"] for x in (p2p, p2g, fgc, g2p)) > 0
        # P2G has all components, G2P those of the result.
        assert g2p["operations"] <= p2g["operations"] <= 3 * g2p["operations"]
