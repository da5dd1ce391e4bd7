"""From a kernel file to the source of one specialised workunit.

`specialise` substitutes the compile-time constants (names in capitals at the top of the file) into
the syntax tree, folds and prunes constant expressions, converts literals and quotients to the real
type, writes out fixed arrays, and drops unused arguments. The result is again a plain PyKokkos
file, which both executors take.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from parki.errors import KernelError
from parki.runtime.blocks import copy_tree, expand, parsed
from parki.runtime.linter import dotted, is_constant_name, is_decorated, lint
from parki.runtime.syntax import walk

Constant = int | float | bool | str
REAL_TYPES = ("double", "float")
_HEADER = "from typing import List\n\nimport pykokkos as pk\n\n\n"


def _quotient(a: int, b: int) -> int:
    """Divide as C does, because kernels so divide values that are not constant."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: _quotient,
    ast.Mod: lambda a, b: a - b * _quotient(a, b),
}
_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True)
class Specialised:
    """One workunit with its constants substituted.

    Attributes
    ----------
    name : str
        The workunit's name.
    text : str
        Python source: a complete PyKokkos file with this workunit and the functions it calls.
    real : str
        ``"double"`` or ``"float"``, the type of the arithmetic.
    arguments : tuple of (name, annotation)
        The arguments still used, in order, without the index or team argument.
    tree : ast.Module or None
        Syntax tree of the text; None if its translation comes from the cache.
    """

    name: str
    text: str
    real: str
    arguments: tuple[tuple[str, str], ...]
    tree: ast.Module | None = field(default=None, compare=False, repr=False)

    @property
    def digest(self) -> str:
        """Hash of the content, which names the file and the cache entries."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def is_team(self) -> bool:
        """Whether the workunit runs over teams (else over a range)."""
        return "team: pk.TeamMember" in self.text


@functools.lru_cache(maxsize=1)
def kernel_directory() -> Path:
    """Return the folder of the kernel files: parki/kernels if installed, else next to parki."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "kernels"
    return installed if installed.is_dir() else package.parent / "kernels"


class Unspecialised(NamedTuple):
    """A workunit of a kernel file with this text, and its constants as ``_plain`` gives them."""

    path: Path
    text: str
    workunit: str
    constants: tuple[tuple[str, str, Constant], ...]  # with types, because 1 == 1.0


def read(file: str | Path, workunit: str, constants: Mapping[str, Constant]) -> Unspecialised:
    """Read a kernel file, with parameters as `specialise` takes them."""
    path = _path(str(file))
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise KernelError(f"there is no kernel file {path.name} in {path.parent}") from None
    plain = ((name, _plain(name, value)) for name, value in sorted(constants.items()))
    return Unspecialised(path, text, workunit, tuple((n, type(v).__name__, v) for n, v in plain))


@functools.lru_cache(maxsize=64)
def _parse(path: Path, text: str, chosen: tuple[tuple[str, str], ...]) -> ast.Module:
    tree = parsed(path, text)
    expand(tree, path, kernel_directory(), dict(chosen))
    lint(tree, path)
    return tree


@functools.lru_cache(maxsize=512)
def substitute(source: Unspecialised) -> Specialised:
    """Put the constants into what `read` returned."""
    path, text, workunit, constants = source
    values_of = {name: value for name, _, value in constants}
    files = {n: v for n, v in values_of.items() if isinstance(v, str) and n != "REAL"}
    tree = _parse(path, text, tuple((name.lower(), file) for name, file in files.items()))
    values = _constant_values(tree, {n: v for n, v in values_of.items() if n not in files}, path)
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    if workunit not in functions or not is_decorated(functions[workunit], "workunit"):
        raise KernelError(f"{path.name}: no workunit named {workunit!r}")
    transformer = _Transformer(values, path)
    needed: dict[str, ast.FunctionDef] = {}
    used: dict[str, set[str]] = {}

    def keep(name: str) -> None:
        if name in needed:
            return
        done = transformer.function(functions[name])
        names = [node.id for node in walk(done) if isinstance(node, ast.Name)]
        used[name] = {*names}
        for called in names:
            if called in functions:
                keep(called)
        needed[name] = done  # after its callees, which C++ needs declared first

    keep(workunit)
    main = needed[workunit]
    index, *rest = main.args.args
    main.args.args = [index, *(a for a in rest if a.arg in used[workunit])]
    module = ast.Module(body=list(needed.values()), type_ignores=[])
    return Specialised(
        name=workunit,
        text=_HEADER + ast.unparse(module) + "\n",
        real=str(values.get("REAL", "double")),
        arguments=tuple(
            (a.arg, ast.unparse(a.annotation)) for a in main.args.args[1:] if a.annotation
        ),
        tree=module,
    )


def specialise(file: str | Path, workunit: str, constants: Mapping[str, Constant]) -> Specialised:
    """Specialise one workunit of a kernel file.

    Parameters
    ----------
    file : str or Path
        Name of a kernel file (``"p2p"``) in the kernel folder, or a path.
    workunit : str
        Name of the workunit.
    constants : mapping
        Values for the file's module constants; ``REAL`` is ``"double"`` or ``"float"``. Constants
        not given keep the file's default; those that are expressions of others follow them. A
        constant named like a folder of blocks, as ``PAIRS="spheres"``, chooses its file, or is the
        text of one.

    Raises
    ------
    KernelError
        If the file leaves the dialect, or a file, the workunit or a constant is unknown, or a
        constant is neither a finite number nor a real type, nor chooses a file.
    """
    return substitute(read(file, workunit, constants))


@functools.lru_cache(maxsize=64)
def _path(file: str) -> Path:
    return Path(file) if file.endswith(".py") else kernel_directory() / f"{file}.py"


def _plain(name: str, value: Any) -> Constant:
    """Convert a constant to a Python number, whose ``repr`` is a literal."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        return value
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise KernelError(f"the constant {name} is {value!r}; expected a finite number")
    return value


def _constant_values(
    tree: ast.Module, constants: dict[str, Constant], path: Path
) -> dict[str, Constant]:
    values: dict[str, Constant] = {}
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            name = dotted(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            if name in values:
                raise KernelError(f"{path.name}: {name} is a constant twice, here or of a block")
            if name in constants:
                values[name] = constants.pop(name)
            elif name == "REAL":
                values[name] = dotted(node.value).removeprefix("pk.")
            else:
                folding = _Transformer({**values, "REAL": "double"}, path)
                value = folding.visit(copy_tree(node.value))
                if not isinstance(value, ast.Constant):
                    raise KernelError(f"{path.name}:{node.lineno}: {name} is not a constant")
                values[name] = value.value  # type: ignore[assignment]
    if constants:
        raise KernelError(
            f"{path.name}: unknown constants {sorted(constants)}; it has {sorted(values)}"
        )
    if values.get("REAL", "double") not in REAL_TYPES:
        raise KernelError(f"{path.name}: REAL is {values['REAL']!r}; expected one of {REAL_TYPES}")
    return values


class _Transformer(ast.NodeTransformer):
    """Substitution, folding, pruning, and arithmetic in the real type."""

    def __init__(self, values: dict[str, Constant], path: Path) -> None:
        self.values = values
        self.path = path
        self.narrow = values.get("REAL") == "float"

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        copy: ast.FunctionDef = self.visit(copy_tree(node))
        return copy

    def real(self) -> ast.expr:
        return ast.Attribute(ast.Name("pk", ast.Load()), str(self.values["REAL"]), ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "REAL":
            return self.real()
        if is_constant_name(node.id):
            if node.id not in self.values:
                raise KernelError(f"{self.path.name}:{node.lineno}: unknown constant {node.id}")
            return self.visit_Constant(ast.copy_location(ast.Constant(self.values[node.id]), node))
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if self.narrow and isinstance(node.value, float):
            # Upstream writes literals as double, and would promote a float32 kernel without a cast.
            return ast.Call(self.real(), [node], [])
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if dotted(node.func) == "REAL" and isinstance(node.args[0], ast.Constant):
            return self.visit_Constant(ast.Constant(float(node.args[0].value)))  # type: ignore[arg-type]
        self.generic_visit(node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.left, ast.List) and isinstance(node.right, ast.Constant):
            count = int(node.right.value)  # type: ignore[arg-type]
            return ast.List(node.left.elts * count, ast.Load())
        if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
            fold = _BINARY.get(type(node.op))
            left, right = node.left.value, node.right.value
            if fold and isinstance(left, int) and isinstance(right, int):
                try:
                    return ast.copy_location(ast.Constant(fold(left, right)), node)
                except ZeroDivisionError:
                    where = f"{self.path.name}:{node.lineno}"
                    raise KernelError(f"{where}: {left} is divided by zero") from None
        if self.narrow and isinstance(node.op, ast.Div):
            return ast.Call(self.real(), [node], [])
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.operand, ast.Constant) and isinstance(node.op, ast.USub):
            return ast.copy_location(ast.Constant(-node.operand.value), node)  # type: ignore[operator]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        left, right = node.left, node.comparators[0]
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            return ast.Constant(_COMPARE[type(node.ops[0])](left.value, right.value))
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        absorbing = isinstance(node.op, ast.Or)
        operands = [v for v in node.values if not isinstance(v, ast.Constant)]
        if any(isinstance(v, ast.Constant) and bool(v.value) is absorbing for v in node.values):
            return ast.Constant(absorbing)
        if len(operands) < 2:
            return operands[0] if operands else ast.Constant(not absorbing)
        return ast.BoolOp(node.op, operands)

    def visit_If(self, node: ast.If) -> Any:
        node.test = self.visit(node.test)
        if isinstance(node.test, ast.Constant):
            return self._block(node.body if node.test.value else node.orelse)
        node.body = self._block(node.body) or [ast.Pass()]
        node.orelse = self._block(node.orelse)
        return node

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        bounds = node.iter.args if isinstance(node.iter, ast.Call) else []
        values = [int(ast.unparse(a)) for a in bounds if isinstance(a, ast.Constant)]
        if len(values) == len(bounds) and not range(*values):
            return []
        node.body = node.body or [ast.Pass()]
        return node

    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        if ast.get_docstring(node) is not None:
            del node.body[0]
        node.body = node.body or [ast.Pass()]
        return node

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            result = self.visit(statement)
            out.extend(result if isinstance(result, list) else [result] if result else [])
        return out
