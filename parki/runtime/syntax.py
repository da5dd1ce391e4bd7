"""What the translator reads off a specialised syntax tree: trip counts, stores, reductions.

Decides nothing about C++: `translate` does.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping
from typing import Any, TypeVar

import numpy as np

from parki.errors import KernelError
from parki.runtime.linter import ATOMICS, dotted

SYMBOLS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
    ast.Mod: "%",
    ast.UAdd: "+",
    ast.USub: "-",
    ast.And: " && ",
    ast.Or: " || ",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
TYPES = {
    "int": "int",
    "bool": "bool",
    "pk.int32": "int",
    "pk.int64": "long long",
    "pk.float": "float",
    "pk.double": "double",
}
REALS = ("pk.float", "pk.double")
DTYPES: dict[str, np.dtype[Any]] = {
    "int": np.dtype(np.int32),
    "pk.int32": np.dtype(np.int32),
    "pk.int64": np.dtype(np.int64),
    "pk.float": np.dtype(np.float32),
    "pk.double": np.dtype(np.float64),
}
# A constant loop is unrolled on a device while the unrolled body stays below this many copies:
# local arrays then live in registers, and code size stays bounded.
UNROLL_LIMIT = 256

Node = TypeVar("Node", bound=ast.AST)


def expect(node: ast.AST | None, kind: type[Node]) -> Node:
    """Return ``node`` as the kind that the linter has made sure it is; refuse what it never saw."""
    if not isinstance(node, kind):
        raise KernelError(f"{ast.unparse(node) if node else 'nothing'!r}: not a {kind.__name__}")
    return node


def unparse(node: ast.expr | None) -> str:
    """Return the source of an expression."""
    return ast.unparse(node) if node is not None else ""


def written(node: ast.FunctionDef) -> set[str]:
    """Return the names whose elements the function stores to."""
    names: set[str] = set()
    for child in ast.walk(node):
        names.update(map(array_of, targets(child)))
        if isinstance(child, ast.Call) and dotted(child.func).removeprefix("pk.") in ATOMICS:
            names.add(array_of(child.args[0]))
    return names


def targets(node: ast.AST) -> list[ast.expr]:
    """Return what a statement assigns to, if it does."""
    if isinstance(node, ast.AugAssign):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) else []


def trip_range(node: ast.For) -> range:
    """Return the values a constant loop takes; an empty range when it is not constant."""
    bounds = expect(node.iter, ast.Call).args
    values = [int(unparse(a)) for a in bounds if isinstance(a, ast.Constant)]
    return range(*values) if len(values) == len(bounds) else range(0)


def unrolled(node: ast.For) -> int:
    """Return how many copies of the innermost body full unrolling would make."""
    inner = [n for n in ast.walk(node) if isinstance(n, ast.For) and n is not node]
    endless = any(isinstance(n, ast.While) for n in ast.walk(node))
    if endless or any(not trip_range(n) for n in inner):
        return UNROLL_LIMIT + 1
    return len(trip_range(node)) * max((unrolled(n) for n in inner), default=1)


def reductions(node: ast.For, arrays: Container[str] = ()) -> set[str]:
    """Return the sums a loop carries, if sums are all it carries; else nothing.

    Such a loop may run in any order: its iterations only read views and add to outer scalars, or
    elements of local ``arrays``, that nothing else in the loop touches.
    """
    local: set[str] = {node.target.id} if isinstance(node.target, ast.Name) else set()
    sums: set[str] = set()
    reads: set[str] = set()
    known: dict[str, int] = {}  # names that each copy of a constant loop has the value of

    def visit(body: list[ast.stmt]) -> bool:
        for statement in body:
            match statement:
                case ast.AnnAssign(ast.Name(name), kind, ast.expr() as value):
                    if unparse(kind) not in TYPES:
                        return False
                    local.add(name)
                case ast.Assign([ast.Name(name)], value) if name in local:
                    pass
                case ast.AugAssign(ast.Name(name), op, value):
                    if name not in local:
                        if not isinstance(op, (ast.Add, ast.Sub)):
                            return False
                        sums.add(name)
                case ast.AugAssign(
                    ast.Subscript(ast.Name(name), index), ast.Add() | ast.Sub(), value
                ) if name in arrays and index_of(index, known) is not None:
                    sums.add(name)
                case ast.If(value, then, other):
                    if not (visit(then) and visit(other)):
                        return False
                case ast.For(ast.Name(name), _, inner) if trip_range(statement):
                    local.add(name)
                    known[name] = 0
                    if not visit(inner):
                        return False
                    continue
                case ast.Pass():
                    continue
                case _:
                    return False
            reads.update(n.id for n in ast.walk(value) if isinstance(n, ast.Name))
        return True

    return sums if visit(node.body) and not sums & reads else set()


def index_of(node: ast.expr, values: Mapping[str, int]) -> int | None:
    """Return the value of an index that is known, given those of some names."""
    match node:
        case ast.Constant(int(value)):
            return value
        case ast.Name(name):
            return values.get(name)
        case ast.BinOp(left, ast.Add() | ast.Mult() as op, right):
            a, b = index_of(left, values), index_of(right, values)
            if a is not None and b is not None:
                return a + b if isinstance(op, ast.Add) else a * b
    return None


def elementwise(node: ast.For) -> bool:
    """Return whether a loop only stores elements whose last index moves with the loop.

    Its iterations are then independent, provided that a stored array is read in the loop under
    the very subscripts it is stored under, which is checked.
    """
    index = expect(node.target, ast.Name).id
    stores: dict[str, set[str]] = {}
    for s in node.body:
        target = next(iter(targets(s)), None)
        if not isinstance(target, ast.Subscript):
            return False
        last = unparse(target.slice)
        if last != index and not last.endswith(f" + {index}"):
            return False
        stores.setdefault(array_of(target), set()).add(unparse(target))
    subscripts = (n for s in node.body for n in ast.walk(s) if isinstance(n, ast.Subscript))
    outermost = [n for n in subscripts if unparse(n).count("[") == unparse(n).count("]")]
    for name, places in stores.items():
        used = {unparse(n) for n in outermost if array_of(n) == name}
        whole = {u for u in used if not any(v != u and v.startswith(u) for v in used)}
        if len(places) != 1 or whole != places:
            return False
    return True


def array_of(node: ast.expr) -> str:
    """Return the name under all subscripts."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return unparse(node)
