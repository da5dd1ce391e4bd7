"""The comparisons with other papers run at a small size, and write their page."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
KINDS = ("guo", "ljungkvist", "rossinelli", "finufft", "fmm3d", "dmk", "spheres")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    folder = ROOT / "scripts"
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("compare_papers", folder / "compare_papers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(folder))


@pytest.mark.slow
def test_comparisons_run_and_write_their_page(script, tmp_path, capsys):
    for peer in ("finufft", "fmm3dpy"):
        if importlib.util.find_spec(peer) is None:
            pytest.skip(f"{peer} is not installed")
    file, page = tmp_path / "papers.json", tmp_path / "papers.md"
    assert script.main(["--quick", "--json", str(file)]) == 0
    records = json.loads(file.read_text(encoding="utf-8"))
    kinds = [kind for kind in KINDS if kind != "dmk" or "DMK_LIBRARY" in os.environ]
    assert [found["kind"] for found in records] == kinds
    printed = capsys.readouterr().out
    assert script.main(["--from", str(file)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("| ") > 0.9 * printed.count("| ")
    pytest.importorskip("matplotlib")
    assert script.main(["--docs", str(file), "--page", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    pictures = re.findall(r"\]\((images/.*?)\)", text)
    assert len(pictures) == len(kinds) and all((tmp_path / name).exists() for name in pictures)


def test_the_page_is_that_of_the_results(script):
    """Nobody wrote into it by hand, and what it begins with says three sentences."""
    files = sorted((ROOT / "docs" / "results").glob("papers-*.json"))
    records = script.record.read(files)
    assert script.page.page(records, script.KINDS) == script.PAGE.read_text(encoding="utf-8")
    for kind in {found["kind"] for found in records}:
        today = " ".join(script.KINDS[kind].TODAY.split())
        assert len(re.findall(r"[.](?= |$)", today)) >= 3, kind


def test_spheres_without_and_with_a_peer(script, monkeypatch, tmp_path, capsys):
    """A module with libMobility's calls is a peer; without one the script says so, and goes on."""
    file = tmp_path / "spheres.json"
    for name, solvers in (("none_such", ["parki"]), ("parki.libmobility", ["parki", "PSE", "FCM"])):
        monkeypatch.setenv("LIBMOBILITY", name)
        assert script.main(["spheres", "--quick", "--json", str(file)]) == 0
        (found,) = json.loads(file.read_text(encoding="utf-8"))
        rows = found["results"]["rows"]
        assert [row["solver"] for row in rows] == solvers
        for row in rows:
            assert 0 < row["error"] <= row["asked"]
            assert row["M F"] > 0 and row["step"] > 0
        left_out = "left out: No module named 'none_such'" in capsys.readouterr().out
        assert left_out == (name == "none_such")
