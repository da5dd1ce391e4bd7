"""The pages are written in common words: these phrases send a reader back to read a line twice.

`docs/glossary.md` has the words of the field; here are words of no field. What follows a phrase is
what to write in its place.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FILES = sorted([*(ROOT / "parki").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")])
PAGES = [
    *sorted(DOCS.glob("*.md")),
    *sorted((DOCS / "examples").glob("*.md")),
    *sorted((DOCS / "recipes").glob("*.md")),
    *sorted((DOCS / "notebook").glob("*.md")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]

INSTEAD = {
    r"(?:^|[.:;!?|]\s|\n\n(?:[-*] )?)[*_]*(?-i:Of)[*_]* (?!course\b)": "put the subject first",
    r"\b(?:those|that) of\b": "say the noun again",
    r"\bas (?:they|it) (?:comes?|stands?|is|are)\b": "in the order given, unchanged",
    r"\balike\b": "in the same way, both",
    r"\bbesides?\b": "next to, compared with, also",
    r"\bbut for\b": "except",
    r"\bin turns\b": "one after the other",
    r"\bso (?:many|much)\b": "the number itself, far, more",
    r"\bdear(?:er|est)?\b": "expensive",
    r"\bfore(?:see|sees|seen|saw)\b": "predict",
    r"\b(?:of|on) hosts\b": "on the CPU",
    r"\bknows? nothing of\b": "say what it does",
    r"\b(?-i:Return|Yield|Take) what\b": "name the thing",
    r"(?-i:Return) the same(?:[,;.]| (?:as|by|for|of|near|with|without)\b)": "name the thing",
}


def faults(text: str) -> list[str]:
    """Return the phrases of a page that have a better one, with that one; code is left out."""
    text = re.sub(r"^```.*?^```|^    .*?$|`[^`\n]+`", "x", text, flags=re.S | re.M)
    text = re.sub(r"(?<=\S)\n(?=\S)", " ", text)  # a phrase may run over the end of a line
    found = []
    for phrase, better in INSTEAD.items():
        for match in re.finditer(phrase, text, re.I):
            around = text[max(0, match.start() - 30) : match.end() + 30]
            found.append(f"...{around.strip()}...: {better}")
    return found


def test_pages_have_none_of_these_phrases():
    found = {page.name: faults(page.read_text(encoding="utf-8")) for page in PAGES}
    assert len(found) > 30
    assert not {name: phrases for name, phrases in found.items() if phrases}


@cache
def read(path: Path) -> tuple[list[ast.AST], list[tokenize.TokenInfo]]:
    """Return the definitions of a file, and its tokens: names, comments and texts.

    Python 3.12 has tokens within f-strings, too, which are left out.
    """
    text = path.read_text(encoding="utf-8")
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    known = tokenize.NAME, tokenize.COMMENT, tokenize.STRING
    every = tokenize.generate_tokens(io.StringIO(text).readline)
    begin, end = (getattr(tokenize, f"FSTRING_{name}", None) for name in ("START", "END"))
    depth, kept = 0, []
    for token in every:
        depth += (token.type == begin) - (token.type == end)
        kept += [token] if token.type in known and not depth else []
    return nodes, kept


def texts(path: Path) -> Iterator[str]:
    """Yield the docstrings and comments of a file."""
    nodes, tokens = read(path)
    yield from (ast.get_docstring(node) or "" for node in nodes)
    yield from (t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT)


def words(text: str) -> int:
    """Return the number of words of text: not of code, formulas, tables, or texts of pictures."""
    text = re.sub(r"^```.*?^```|<!--.*?-->|^\|.*?$", "", text, flags=re.S | re.M)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`|\$+[^$]*\$+", "x", text))
    return len(re.findall(r"[^\W\d_][\w'’-]*", text))


def test_manual_is_short():
    """Scripts write most of the evidence, and the references are titles of papers."""
    assert words("`a b` [two](words) here ![no](no)\n\n| no |\n```\nno\n```\n$no$\n") == 4
    _, _, evidence = (DOCS / "index.md").read_text(encoding="utf-8").partition(":caption: Evidence")
    others = {*re.findall(r"<(\w+)>", evidence.partition("```")[0]), "references"}
    assert len(others) > 5
    pages = [page for page in PAGES if page.parent != DOCS / "notebook" and page.stem not in others]
    counts = {page.name: words(page.read_text(encoding="utf-8")) for page in pages}
    del counts["CONTRIBUTING.md"]
    # 23 500, and 800 for the recipes, the calculator of ASE, and how to release; 500 for charges
    # that are soft, and that respond; 300 for plates and dielectrics; 300 for batches of molecules,
    # wires, slabs and crystals; 600 for files for ParaView, packings, copies, notebooks, and steps
    # at constant pressure; 200 for the page of walls; 100 for spheres between two walls, and an
    # example of these; 200 for drops that rise, and drops in a box that shears; 300 for derivatives
    # by the widths of charges, a monolayer, and what calls take on a CPU.
    assert sum(counts.values()) < 26_800, counts


def test_docstrings_have_none_of_these_phrases():
    assert len(FILES) > 150
    found = {str(path): faults("\n\n".join(texts(path))) for path in FILES}
    assert not {name: phrases for name, phrases in found.items() if phrases}


# Names of other libraries, and of parki's files in C++, that docstrings quote.
OTHERS = {
    "GradScaler",
    "TemporaryDirectory",
    "amp",
    "aslinearoperator",
    "cg",
    "cpp",
    "hpp",
    "shard_map",
}


def test_docstrings_name_what_there_is():
    """Each name that one quotes, or that it says is the type of an argument."""
    known, quoted = {*OTHERS}, defaultdict[str, set[str]](set)
    for path in FILES:
        nodes, tokens = read(path)
        known |= {path.stem, path.parent.name}
        for token in tokens:
            known |= {*re.findall(r"\w+", token.string)} if token.string[0] not in "#\"'" else set()
            known |= {token.string[1:-1]} if token.type == tokenize.STRING else set()
        for docstring in (ast.get_docstring(node) or "" for node in nodes):
            pattern = r"(?<!`)`([A-Za-z_][\w.]*)`(?!`)|^ *\w+ : ([A-Z]\w+)"
            for name, kind in re.findall(pattern, docstring, re.M):
                for word in (name or kind).split("."):
                    quoted[word].add(path.name)
    assert len(quoted) > 500
    assert not {word: places for word, places in quoted.items() if word not in known}


def test_phrases_are_found():
    for text in (
        "A page. Of tests one runs.",
        "**Of** tests one runs.",
        "Head\n\nOf many one runs.",
        "The numbers are those\nof an H200.",
        "They stand beside others, all\nalike, but\nfor one.",
        "Windows are dearer.",
        "Return what is summed.",
    ):
        assert faults(text), text
    assert not faults("`beside` and\n\n    those of\n\n```sh\nbut for\n```\nOf course, as we do.")


def test_glossary_has_each_term_once():
    """In each of its tables by the alphabet, and no term in two of them."""
    themes = re.split(r"^## .*$", (DOCS / "glossary.md").read_text(encoding="utf-8"), flags=re.M)
    terms = [re.findall(r"^\| (?!word|---)(.*?) \|", theme, re.M) for theme in themes[1:]]
    assert len(terms) > 1
    assert all(len(theme) > 5 for theme in terms)
    assert terms == [sorted(theme, key=str.lower) for theme in terms]
    words = [word.lower() for theme in terms for term in theme for word in term.split(", ")]
    assert sorted(words) == sorted(set(words))


# ---------------------------------------------------------------------- one word for one thing
# Names that the glossary replaced, with what to write instead.
REPLACED = {
    "turn": "the thing meant: exclusive (a lock), angles, rounds, shift",
    "turned": "transposed",
    "exchanged": "transposed",
    "probe": "tensor target",
    "probes": "tensors (arrays), tensor targets",
    "tilt": "axial_weight",
    "steep": "differentiates_window, derivative_tables, or the thing meant",
    "room": "slack (columns), margin (errors), free (bytes), scratch (memory)",
    "forget": "clear_cache, clear, drop",
    "mean_edge": "volume_length",
    "looks": "candidates, searches",
    "crowding": "occupancy",
    "misfits": "invalid",
    "rubbed": "brinkman",
    "shaken": "brownian_noise",
    "lifts": "faxen_factors",
    "suiting": "replan",
    "placedsum": "EwaldSum",
    "planpoints": "Cloud",
    "TransposedCombination": "LinearCombination.transposed",
    "swapped_plan": "LinearCombination.transposed",
    "couplet": "force dipole",
    "couplets": "force dipoles",
}
# What prose may not say, either; the others are everyday words.
TERMS = {"probe", "probes", "tilt", "mean_edge"}
# The public face of one device and of many ranks: two doors of the same name.
SHARED = {"Plan", "Spheres"}


def replaced(path: Path) -> list[str]:
    """Return the replaced words of a file: parts of names, and words of text."""
    found = []
    for token in read(path)[1]:
        words, known = [], REPLACED
        if token.type == tokenize.NAME:
            words = [token.string.strip("_").lower(), *token.string.lower().split("_")]
        elif token.type == tokenize.COMMENT or token.string.startswith('"""'):
            words, known = re.findall(r"[a-z_]+", token.string.lower()), TERMS
        found += [
            f"{path.name}:{token.start[0]}: {word!r}; write {REPLACED[word]}"
            for word in {word.strip("_") for word in words} & {*known}
        ]
    return found


def test_no_replaced_word():
    found = [line for path in FILES for line in replaced(path)]
    assert not found, "\n".join(found)


# Names that say little, and how often parki has them: less each time, and nowhere many.
VAGUE = {"found": 40, "at": 70, "given": 80, "each": 235, "own": 125, "kept": 100, "made": 25}
MOST_VAGUE = 64  # of one of them in a file


def test_names_say_what_they_hold():
    counts = {word: Counter[str]() for word in VAGUE}
    for path in (ROOT / "parki").rglob("*.py"):
        for token in read(path)[1]:
            if token.type == tokenize.NAME and token.string in VAGUE:
                counts[token.string][str(path.relative_to(ROOT))] += 1
    totals = {word: count.total() for word, count in counts.items()}
    assert not {word: total for word, total in totals.items() if total > VAGUE[word]}
    most = {word: count.most_common(1)[0] for word, count in counts.items()}
    assert not {word: place for word, place in most.items() if place[1] > MOST_VAGUE}


def test_class_names_are_unique():
    places = defaultdict(list)
    for path in FILES:
        for node in read(path)[0]:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert twice.keys() <= SHARED, twice


@pytest.mark.parametrize(
    "line", ["probes = 1", "def turn(): ...", '"""Two probes."""', "# a probe"]
)
def test_words_are_found(tmp_path, line):
    path = tmp_path / "file.py"
    path.write_text(line + "\n")
    assert replaced(path)
