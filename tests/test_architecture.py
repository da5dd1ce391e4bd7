"""The folders of `parki.ewald` import each other in one direction only."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import parki
from parki import core

EWALD = Path(parki.__file__).parent / "ewald"
# What some lines of `docs/architecture.md` import of those above them, or single modules of these.
LESS: dict[str, tuple[str, ...]] = {
    "near": ("sums", "split", "lattice", "options", "geometry", "task", "solver_box"),
    "far": ("sums", "split", "lattice", "options", "geometry", "task", "solver_box"),
    "choice": (
        *("sums", "split", "lattice", "options", "geometry", "task", "points"),
        # Sizes and declarations, which launch nothing.
        *("near.sizes", "far.sizes", "far.columns", "far.padding", "near.buffers", "far.buffers"),
    ),
}
# What is built on sums. It imports `parki.ewald` by `parki.core` alone.
ON_TOP = ("suspensions", "dynamics", "surfaces", "torch", "jax", "mesh", "solving", "libmobility")
# Spreading and interpolation are steps of the far field, which `parki.mesh` shows as operations:
# it has the windows, checks arrays as sums do, and has a lock as a placement has.
BESIDE_CORE = {
    "mesh": (
        *("parki.ewald.far", "parki.ewald.split.window", "parki.ewald.split.windows"),
        *("parki.ewald.points.check_dtypes", "parki.ewald.points.check_output"),
        *("parki.ewald.points.extremes", "parki.ewald.pipeline.protocol.Access"),
    ),
}
# What only these import; the rest of parki works without it.
DOORS = {
    "cli": ("__main__",),
    "core": ON_TOP,
    "distributed": ("__init__",),
    "dynamics": ("__init__",),
    "extend": (),
    "files": ("__init__",),
    "jax": (),
    "libmobility": (),
    "mesh": ("__init__", "files"),
    "reference": ("__init__", "cli"),
    "solving": ("__init__", "dynamics", "surfaces"),
    "surfaces": ("__init__",),
    "torch": (),
}
LAUNCHERS = ("load", "Kernel", "prepare")


@cache
def imports(path, package="parki.ewald"):
    """Return (module, name) for what a file imports, for type checkers too."""
    return [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package)
        for alias in node.names
    ]


def lines():
    """Return the names of the lines of `ewald` on the page, in order."""
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = page.partition("  ewald/\n")[2].partition("  suspensions/")[0]
    return re.findall(r"^    (\w+)/? ", block, re.MULTILINE)


def test_each_line_imports_lines_above():
    names = lines()
    there = {path.relative_to(EWALD).parts[0].removesuffix(".py") for path in EWALD.rglob("*.py")}
    assert {*names} == there - {"__init__", "__pycache__"} and len({*names}) == len(names)
    for path in EWALD.rglob("*.py"):
        own = path.relative_to(EWALD).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        allowed = (own, *LESS.get(own, names[: names.index(own)]))
        for module, name in imports(path):
            inside = f"{module}.{name}".removeprefix("parki.ewald.")
            if inside.startswith("calls."):  # for type checkers alone
                continue
            assert any(inside == one or inside.startswith(one + ".") for one in allowed), (
                f"{path.relative_to(EWALD)} imports {module}.{name}"
            )


def test_listed_calls_are_there():
    """Each function, and each method of a class or of one that it is derived from."""
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = page.partition("### From a call to the stages")[2].partition("```\n\n## ")[0]
    names, bases = {}, {}
    for path in EWALD.parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                values = [getattr(base, "value", base) for base in node.bases]
                bases[node.name] = [base.id for base in values if isinstance(base, ast.Name)]
            owner = node.name if isinstance(node, ast.ClassDef) else ""
            if owner or isinstance(node, ast.Module):
                defined = [
                    e.name for e in node.body if isinstance(e, (ast.FunctionDef, ast.ClassDef))
                ]
                names.setdefault(owner, set()).update(defined)
    calls = re.findall(r"([A-Z]\w+)\.(\w+)", block)
    calls += [("", name) for name in re.findall(r"^ +([a-z]\w+)  ", block, re.M)]

    def has(owner, name):
        return name in names[owner] or any(has(base, name) for base in bases.get(owner, ()))

    assert len({*calls}) > 25
    assert not [call for call in calls if not has(*call)]


def test_doors():
    root = EWALD.parent
    found = []
    for path in root.rglob("*.py"):
        place = path.relative_to(root).with_suffix("").parts[0]
        for module, name in imports(path, "parki"):
            entered = f"{module}.{name}".split(".")[1]
            if place not in (entered, *DOORS.get(entered, (place,))):
                found.append(f"{path.relative_to(root)} imports {module}.{name}")
    assert not found


def test_rooms_on_top_import_core():
    """And `parki.core` has nothing that none of them imports."""
    root, names = EWALD.parent, set()
    for room in ON_TOP:
        beside = ("parki.ewald.calls", *BESIDE_CORE.get(room, ()))  # the first for type checkers
        for path in (root / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"^ *import parki\.", text, re.MULTILINE), path
            for module, name in imports(path, "parki"):
                full = f"{module}.{name}"
                if module == "parki.core":
                    names.add(name)
                elif full.startswith("parki.ewald") or full == "parki.core":
                    allowed = any(full == one or full.startswith(one + ".") for one in beside)
                    assert allowed, f"{path.relative_to(root)} imports {full}; see parki/core.py"
    assert names == set(core.__all__)
    assert all(f"`{name}`" in core.__doc__ for name in names)


def test_ewald_imports_no_room_on_top():
    for path in EWALD.rglob("*.py"):
        for module, name in imports(path, "parki"):
            room = f"{module}.{name}".split(".")[1]
            assert room not in (*ON_TOP, "core"), f"{path.relative_to(EWALD)} imports {module}"


def test_reference_knows_nothing_of_the_solver():
    """Except for the type of options."""
    files = (EWALD.parent / "reference").glob("*.py")
    found = {pair for path in files for pair in imports(path, "parki")}
    others = {pair for pair in found if not pair[0].startswith("parki.reference")}
    assert others == {("parki.ewald", "EwaldOptions")}


def test_rooms():
    """A folder is seen at a glance; directly in `parki` are its face, and what all wings share."""
    for folder, most in ((EWALD, 8), (EWALD.parent, 13)):
        modules = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
        assert len(modules) <= most, f"{len(modules)} modules in {folder.name}: {sorted(modules)}"


def test_imports_for_type_checkers_count(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("if TYPE_CHECKING:\n    from parki.ewald.plan import Plan\n")
    assert list(imports(path)) == [("parki.ewald.plan", "Plan")]


def test_sizes_and_choice_launch_nothing():
    sizes = [EWALD / f"{name.replace('.', '/')}.py" for name in LESS["choice"] if "." in name]
    for path in (*sizes, *(EWALD / "choice").glob("*.py")):
        names = {name for _, name in imports(path, "parki")}
        assert not names & set(LAUNCHERS), path.name


def test_no_circles():
    """Every module of parki can come after those that it imports."""
    root = EWALD.parent
    paths = {
        ".".join(("parki", *path.relative_to(root).with_suffix("").parts)): path
        for path in root.rglob("*.py")
    }
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    needs = {}
    for name, path in paths.items():
        found = set()
        for module, item in imports(path, "parki"):
            found.add(f"{module}.{item}" if f"{module}.{item}" in paths else module)
        # A package's own names are there once its parts are.
        needs[name] = {each for each in found if each in paths and not name.startswith(each + ".")}
        needs[name].discard(name)
    while free := {name for name, needed in needs.items() if not needed & needs.keys()}:
        for name in free:
            del needs[name]
    assert not needs, {name: sorted(needed & needs.keys()) for name, needed in needs.items()}


def fixtures(path):
    """Yield the names of a test file's fixtures, and whether every test takes them."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            decorators = [ast.unparse(each) for each in node.decorator_list]
            if marks := [each for each in decorators if each.startswith("pytest.fixture")]:
                yield node.name, any("autouse=True" in each for each in marks)


def test_no_file_replaces_a_fixture_of_every_test():
    """Which pytest lets a fixture of the same name do, without a word."""
    folder = Path(__file__).parent
    taken = {name for name, by_all in fixtures(folder / "conftest.py") if by_all}
    assert taken
    replaced = {
        path.name: names
        for path in folder.glob("test_*.py")
        if (names := taken & {name for name, _ in fixtures(path)})
    }
    assert not replaced, f"give these fixtures other names than those in conftest.py: {replaced}"


def test_what_tests_import_comes_with_their_extra():
    """Else they are not collected; they skip what is optional."""
    root, here = Path(__file__).parents[1], Path(__file__).parent
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    parts = [
        text.partition(f"\n{name} = [")[2].partition("\n]")[0] for name in ("dependencies", "test")
    ]
    comes = set(re.findall(r'^    "([\w-]+)', "\n".join(parts), re.MULTILINE)) | {"rich", "parki"}
    own = {
        path.stem
        for folder in ("tests", "scripts", "examples")
        for path in root.glob(f"{folder}/**/*.py")
    }
    own |= {
        path.name
        for folder in (here, root / "scripts")
        for path in folder.rglob("*")
        if path.is_dir()
    }
    for path in [*here.glob("test_*.py"), *here.glob("helpers/*.py"), here / "conftest.py"]:
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))
        found = {a.name for node in tree.body if isinstance(node, ast.Import) for a in node.names}
        if "importorskip" not in path.read_text(encoding="utf-8"):
            found |= {str(n.module) for n in tree.body if isinstance(n, ast.ImportFrom)}
        missing = {name.partition(".")[0] for name in found} - sys.stdlib_module_names - own - comes
        assert not missing, path.name
