"""Programs of the pages run, and the names, files and links that pages have exist."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from pages import (
    BLOCK,
    BOTH,
    DOCS,
    EXAMPLES,
    GPU,
    MARKDOWN,
    PLAIN,
    RANKS,
    ROOT,
    need,
    program,
    small,
)
from started import NO_GPU, mpirun, parallel

import parki
import parki.extend
from parki import settings

sys.path.insert(0, str(ROOT / "scripts"))


# The Python blocks of a page are one program, from top to bottom. What a block needs is read off
# it: CuPy or `cuda` make it one for a GPU, `parki.distributed` one for mpirun, of two ranks here.
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.glob("*.md")), *EXAMPLES]
PROGRAMS = BLOCK.findall(README.read_text(encoding="utf-8"))

# What pages take for granted: points and densities of their readers' own.
READERS_OWN = """
import numpy as np
import parki
rng = np.random.default_rng(0)
trg, src, dens = (rng.random((3, n)) for n in (300, 400, 400))
options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-4)
"""


def with_blocks(needed: str) -> list[Path]:
    """Return the pages with blocks that need this."""
    blocks = {page: BLOCK.findall(page.read_text(encoding="utf-8")) for page in PAGES[1:]}
    return [page for page, texts in blocks.items() if needed in map(need, texts)]


def pages(needed: str) -> list[object]:
    """Return them as parameters."""
    return [pytest.param(page, id=page.name) for page in with_blocks(needed)]


@pytest.mark.parametrize("text", PROGRAMS, ids=range(len(PROGRAMS)))
def test_python_blocks_of_the_readme_run(text):
    names: dict[str, object] = {}
    exec(compile(small(text), str(README), "exec"), names)
    assert names["pot"].shape == names["trg"].shape
    assert np.isfinite(names["pot"]).all()


def test_there_are_programs_and_they_shrink():
    assert all(pages(needed) for needed in (PLAIN, GPU, RANKS))
    assert "nt = 40000\n" in program(ROOT / "docs/examples/figure10.md", PLAIN)
    assert len(PROGRAMS) == 1
    for text in PROGRAMS:
        assert not re.search(r"\d_000|\d{6}", small(text))


@pytest.mark.parametrize("page", pages(PLAIN))
def test_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where pages write files
    exec(compile(program(page, PLAIN), str(page), "exec"), {})


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)
@pytest.mark.parametrize("page", pages(GPU))
def test_pages_run_on_a_gpu(page):
    text, names = program(page, PLAIN, GPU), {}
    if "import torch" in text:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    exec(READERS_OWN, names)
    exec(compile(text, str(page), "exec"), names)


@pytest.mark.parametrize(
    ("first", "needs"),
    [
        pytest.param("", (RANKS,), marks=parallel),
        pytest.param(
            "import cupy\n",
            (RANKS, BOTH),
            marks=[*parallel, pytest.mark.gpu, pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)],
        ),
    ],
)
def test_pages_run_on_ranks(first, needs, tmp_path):
    """One after another, as starting the ranks takes longer than most."""
    texts = {str(p): first + READERS_OWN + program(p, *needs) for p in with_blocks(RANKS)}
    script = f"for page, text in {texts!r}.items():\n    exec(compile(text, page, 'exec'), {{}})\n"
    (tmp_path / "pages.py").write_text(script, encoding="utf-8")
    ran = mpirun(2, script=tmp_path / "pages.py", seconds=300)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("module", "needs"),
    [
        ("parki.ewald.plan", "numpy"),
        ("parki.distributed.plan", "mpi4py"),
        ("parki.torch.energies", "torch"),
        ("parki.jax.energies", "jax"),
    ],
)
def test_examples_in_docstrings_run(module, needs):
    pytest.importorskip(needs, reason=f"{needs} is not installed")
    ran = doctest.testmod(importlib.import_module(module))
    assert ran.attempted > 3
    assert ran.failed == 0


def test_settings_table_is_that_of_the_module():
    rows = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for s in settings.SETTINGS.values():
        default = f"`{s.default}`" if s.default else ""
        rows.append(f"| `{s.name}` | {default} | {s.meaning} |".replace("|  |", "| |"))
    text, table = (ROOT / "docs/commands.md").read_text(encoding="utf-8"), "\n".join(rows)
    found = re.search(
        r"^<!-- settings:.*?-->\s*(.*?)\s*^<!-- end of settings -->", text, re.S | re.M
    )
    assert found and found.group(1) == table, f"put this into the page:\n{table}"


def test_names_and_files_exist():
    folders, missing = "docs|examples|kernels|parki|scripts|tests", []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name in set(re.findall(r"`(?:parki\.)((?:\w+\.)*\w+)\b(?<!\.py)", text)):
            found: object = parki
            for part in name.split("."):
                if not hasattr(found, part):
                    __import__(f"parki.{name.rsplit('.', 1)[0]}")
                found = getattr(found, part)
        paths = set(re.findall(rf"(?<![\w/.])((?:{folders})/[\w/-]+\.\w+)\b", text))
        paths |= set(re.findall(r"\]\(((?:docs/|\.\./)?images/[\w/.-]+)\)", text))
        places = (ROOT, page.parent)
        missing += [path for path in paths if not any((at / path).exists() for at in places)]
    assert not missing


def test_links_of_files_lead_somewhere():
    """As files show them, before the site is built."""
    broken = {page.name: broken_links(page) for page in MARKDOWN}
    assert not {name: links for name, links in broken.items() if links}


def test_broken_links_are_found_out(tmp_path):
    (tmp_path / "other.md").write_text(
        "# A page\n\n## One *thing*, once\n\n```sh\n# two\n```\n", encoding="utf-8"
    )
    good = ["other.md", "other.md#one-thing-once", "#here", "https://example.org/#nowhere"]
    bad = ["another.md", "other.md#two", "#there"]
    text = "# Here\n\n" + "".join(f"[a link]({link})\n" for link in good + bad)
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    assert broken_links(tmp_path / "page.md") == bad


def broken_links(page: Path) -> list[str]:
    """Return the links of a page to files, or headings in them, that are not there."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        file, _, place = link.partition("#")
        if "://" in link:
            continue
        target = page.parent / file if file else page
        if not target.exists() or (place and place not in places(target)):
            broken.append(link)
    return broken


def places(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def rows_of(page: Path, heading: str) -> list[list[str]]:
    """Return the cells of the first table after a heading, without its head."""
    text = page.read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    lines = re.search(r"(?:^\|.*\|\n)+", text, re.M)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_times_of_the_readme_are_those_of_performance():
    """One number for one thing: the same sum has the same time on both pages, and in the record."""
    page, readme = ROOT / "docs/performance.md", rows_of(ROOT / "README.md", "Performance")
    (_, *gpu), (_, *mixed), (_, *cpu) = ([cell.rpartition(" ") for cell in row] for row in readme)
    text = page.read_text(encoding="utf-8")
    first = next(r for r in rows_of(page, "One GPU") if r[:3] == ["1", "1e-4", "double"])
    published = re.search(r"published code takes (\d+) ms for the first row", text)[1]
    assert [c[0] for c in gpu[1:]] == [first[3], first[5], published]
    own = next(r for r in rows_of(page, "Mixed precision") if r[:2] == ["4,000,000", "1"])
    assert [c[0] for c in mixed[1:3]] == [own[5], own[3]]
    found = next(r for r in rows_of(page, "Two CPU cores") if r[:3] == ["1", "100,000", "1e-4"])
    assert [c[0] for c in cpu[1:]] == [found[4], found[5], found[3]]
    records = json.loads((ROOT / "docs/results/benchmarks-cpu.json").read_text(encoding="utf-8"))
    figure = next(each for each in records if each["kind"] == "figure9")["results"]["rows"]
    record = next(row for row in figure if row["points"] == 100_000)
    assert float(found[4]) == pytest.approx(record["one_shot"], rel=0.1)
    assert float(found[5]) == pytest.approx(record["apply"], rel=0.1)


def test_gallery_has_small_pictures():
    """They are parts of the pictures of the manual, which `scripts/gallery.py` cuts out."""
    shown = re.findall(r"images/small/(\w+)\.png", (ROOT / "docs/index.md").read_text("utf-8"))
    script = (ROOT / "scripts/gallery.py").read_text("utf-8")
    made = re.findall(r'^    "(\w+)": \(', script, re.M)
    assert len(shown) > 10 and sorted(shown) == sorted(made)
    assert (ROOT / "docs/images/demo.png").stat().st_size < 300_000
    for name in shown:
        assert (ROOT / f"docs/images/small/{name}.png").stat().st_size < 100_000
        assert (ROOT / f"docs/images/{name}.png").exists()
