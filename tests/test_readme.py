"""The README and the pages of `docs` keep their word: programs run, settings and names exist.

The Python blocks of a page are one program, from top to bottom. What a block needs is read off it:
CuPy or `cuda` make it one for a GPU, `parki.distributed` one for mpirun, of two ranks here.
Examples in docstrings are run as well, since `docs/api.md` shows them.
"""

import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from pages import BLOCK, BOTH, GPU, PLAIN, RANKS, need, program, small
from started import NO_GPU, mpirun, parallel

import parki
from parki import settings

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = BLOCK.findall(README.read_text(encoding="utf-8"))

# What pages take for granted: points and densities of their readers' own.
READERS_OWN = """
import numpy as np
import parki
rng = np.random.default_rng(0)
trg, src, dens = (rng.random((3, n)) for n in (300, 400, 400))
options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-4)
"""


def pages(needed: str) -> list[object]:
    """Return the pages with blocks that need this, as parameters."""
    found = []
    for page in PAGES[1:]:
        blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
        if any(need(block) == needed for block in blocks):
            found.append(pytest.param(page, id=page.name))
    return found


@pytest.mark.parametrize("text", PROGRAMS, ids=range(len(PROGRAMS)))
def test_python_blocks_of_the_readme_run(text):
    names: dict[str, object] = {}
    exec(compile(small(text), str(README), "exec"), names)
    pot, trg = names["pot"], names["trg"]
    assert isinstance(pot, np.ndarray)
    assert isinstance(trg, np.ndarray)
    assert pot.shape == trg.shape
    assert np.isfinite(pot).all()


def test_there_are_programs_and_they_shrink():
    assert "nt = 40000\n" in program(ROOT / "docs/examples.md", PLAIN)
    assert len(PROGRAMS) == 1
    for text in PROGRAMS:
        assert not re.search(r"\d_000|\d{6}", small(text))


@pytest.mark.parametrize("page", pages(PLAIN))
def test_pages_run(page):
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


@pytest.mark.parametrize("page", pages(RANKS))
class TestRanks:
    pytestmark = parallel

    def test_pages_run(self, page, tmp_path):
        start(READERS_OWN + program(page, RANKS), tmp_path / "page.py")

    @pytest.mark.gpu
    @pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)
    def test_pages_run_on_a_gpu(self, page, tmp_path):
        start("import cupy\n" + READERS_OWN + program(page, RANKS, BOTH), tmp_path / "page.py")


def start(text: str, script: Path) -> None:
    """Run a program on two ranks."""
    script.write_text(text, encoding="utf-8")
    ran = mpirun(2, script=script, seconds=120)
    assert ran.returncode == 0, ran.stderr


def test_there_are_pages_of_each_kind():
    assert all(pages(needed) for needed in (PLAIN, GPU, RANKS))


@pytest.mark.parametrize("module", ["parki.ewald.plan", "parki.distributed.plan"])
def test_examples_in_docstrings_run(module):
    if "distributed" in module:
        pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    ran = doctest.testmod(importlib.import_module(module))
    assert ran.attempted > 3
    assert ran.failed == 0


def settings_table() -> str:
    """Return the table of settings as the page shows it."""
    rows = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for s in settings.SETTINGS.values():
        default = f"`{s.default}`" if s.default else ""
        rows.append(f"| `{s.name}` | {default} | {s.meaning} |".replace("|  |", "| |"))
    return "\n".join(rows)


def test_settings_table_is_that_of_the_module():
    found = re.search(
        r"^<!-- settings:.*?-->\s*(.*?)\s*^<!-- end of settings -->",
        (ROOT / "docs/commands.md").read_text(encoding="utf-8"),
        re.S | re.M,
    )
    assert found
    assert found.group(1) == settings_table(), f"put this into the page:\n{settings_table()}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_exist(page):
    text = page.read_text(encoding="utf-8")
    for name in set(re.findall(r"`(?:parki\.)((?:\w+\.)*\w+)\b(?<!\.py)", text)):
        found: object = parki
        for part in name.split("."):
            if not hasattr(found, part):
                __import__(f"parki.{name.rsplit('.', 1)[0]}")
            found = getattr(found, part)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_exist(page):
    text = page.read_text(encoding="utf-8")
    folders = "docs|examples|kernels|parki|scripts|tests"
    paths = set(re.findall(rf"(?<![\w/.])((?:{folders})/[\w/-]+\.\w+)\b", text))
    paths |= set(re.findall(r"\]\(((?:docs/)?images/[\w/.-]+)\)", text))
    missing = [
        path for path in paths if not any((at / path).exists() for at in (ROOT, page.parent))
    ]
    assert not missing


PLAIN_PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
LINKED = [*PLAIN_PAGES, *PAGES[1:], *sorted((ROOT / "docs/notebook").glob("*.md"))]


def test_links_lead_somewhere():
    """As files show them; `tests/test_docs.py` follows those of the site, once it is built."""
    broken = {page.name: broken_links(page) for page in LINKED}
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


def test_picture_is_small():
    assert (ROOT / "docs/images/demo.png").stat().st_size < 300_000
