"""Analysis of a specialised syntax tree for `translate`: trip counts, stores, reductions."""

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
# A constant loop is unrolled on a device up to this many copies of the body, so that local arrays
# are in registers and the code size is bounded.
UNROLL_LIMIT = 256

Node = TypeVar("Node", bound=ast.AST)


def expect(node: ast.AST | None, kind: type[Node]) -> Node:
    """Return ``node`` as the given kind, which the linter has ensured; raise otherwise."""
    if not isinstance(node, kind):
        raise KernelError(f"{ast.unparse(node) if node else 'nothing'!r}: not a {kind.__name__}")
    return node


def unparse(node: ast.expr | None) -> str:
    """Return the source of an expression."""
    if isinstance(node, ast.Name):  # which most are
        return node.id
    return ast.unparse(node) if node is not None else ""


# Nodes that have no others, except one that says whether a name is read or stored.
LEAVES = (ast.Name, ast.Constant, ast.Load, ast.Store)


def walk(tree: ast.AST) -> list[ast.AST]:
    """Return a node and all within, as `ast.walk` does in five times as long."""
    nodes = [tree]
    for node in nodes:
        for value in () if type(node) in LEAVES else vars(node).values():
            if isinstance(value, list):
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes


def written(node: ast.FunctionDef) -> set[str]:
    """Return the names whose elements the function stores to."""
    names: set[str] = set()
    for child in walk(node):
        names.update(map(array_of, targets(child)))
        if isinstance(child, ast.Call) and dotted(child.func).removeprefix("pk.") in ATOMICS:
            names.add(array_of(child.args[0]))
    return names


def targets(node: ast.AST) -> list[ast.expr]:
    """Return the target of an assignment, else None."""
    if isinstance(node, ast.AugAssign):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) else []


def trip_range(node: ast.For) -> range:
    """Return the values of a constant loop; an empty range if it is not constant."""
    bounds = expect(node.iter, ast.Call).args
    values = [int(unparse(a)) for a in bounds if isinstance(a, ast.Constant)]
    return range(*values) if len(values) == len(bounds) else range(0)


def unrolled(node: ast.For) -> int:
    """Return the number of copies of the innermost body after full unrolling."""
    inner = [n for n in walk(node) if isinstance(n, ast.For) and n is not node]
    endless = any(isinstance(n, ast.While) for n in walk(node))
    if endless or any(not trip_range(n) for n in inner):
        return UNROLL_LIMIT + 1
    return len(trip_range(node)) * max((unrolled(n) for n in inner), default=1)


def reductions(node: ast.For, arrays: Container[str] = ()) -> set[str]:
    """Return the sums that a loop carries, or nothing if it carries more than sums.

    Such a loop may run in any order. Its iterations only read views, and add to outer scalars or to
    elements of local ``arrays`` that no other statement in the loop uses.
    """
    local: set[str] = {node.target.id} if isinstance(node.target, ast.Name) else set()
    sums: set[str] = set()
    reads: set[str] = set()
    known: dict[str, int] = {}  # values of names in one copy of a constant loop

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
            reads.update(n.id for n in walk(value) if isinstance(n, ast.Name))
        return True

    return sums if visit(node.body) and not sums & reads else set()


def index_of(node: ast.expr, values: Mapping[str, int]) -> int | None:
    """Return the value of an index, if the known names determine it."""
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
    """Return whether a loop only stores elements whose last index changes with the loop.

    Its iterations are then independent, provided that the loop reads a stored array only with the
    same subscripts, which is checked.
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
    subscripts = (n for s in node.body for n in walk(s) if isinstance(n, ast.Subscript))
    outermost = [n for n in subscripts if unparse(n).count("[") == unparse(n).count("]")]
    for name, indices in stores.items():
        used = {unparse(n) for n in outermost if array_of(n) == name}
        whole = {u for u in used if not any(v != u and v.startswith(u) for v in used)}
        if len(indices) != 1 or whole != indices:
            return False
    return True


def array_of(node: ast.expr) -> str:
    """Return the name that is subscripted."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return unparse(node)
