"""From a specialised workunit to C++: one function body for the host and for the device.

What the dialect cannot say is supplied here from the syntax tree: ``const`` and ``restrict``,
64-bit indices into views, `simd` reductions over loops whose only carried values are sums, and
unrolling of constant loops on a device. The small run-time library the text refers to (namespace
``pk``) is in ``host.hpp`` and ``device.hpp``. Knows nothing of compilers and launches.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from parki.errors import KernelError
from parki.runtime.linter import MATH, dotted, is_decorated
from parki.runtime.specialise import Specialised

TYPES = {
    "int": "int",
    "bool": "bool",
    "pk.int32": "int",
    "pk.int64": "long long",
    "pk.float": "float",
    "pk.double": "double",
}
SIZES = {"int": 4, "pk.int32": 4, "pk.float": 4, "pk.int64": 8, "pk.double": 8}
# A constant loop is unrolled on a device while the unrolled body stays below this many copies:
# local arrays then live in registers, and code size stays bounded.
UNROLL_LIMIT = 256


@dataclass(frozen=True)
class View:
    """A view argument: element type in the dialect, and rank."""

    element: str
    rank: int


@dataclass(frozen=True)
class Translated:
    """C++ of one workunit.

    Attributes
    ----------
    text : str
        The body to follow ``#include "host.hpp"`` or ``"device.hpp"``.
    arguments : tuple of (name, View or scalar type)
        What a launch passes, in order. A view takes 1 + rank slots (pointer, extents), a scalar one.
    scratch : int
        Bytes of scratch memory a team needs.
    team : bool
        Whether one work item is a team.
    """

    text: str
    arguments: tuple[tuple[str, View | str], ...]
    scratch: int
    team: bool


def view_type(annotation: str) -> View | str:
    """Return the `View` of ``pk.View2D[pk.double]``, or a scalar annotation unchanged."""
    if annotation.startswith("pk.View"):
        return View(annotation[annotation.index("[") + 1 : -1], int(annotation[len("pk.View")]))
    return annotation


def translate(workunit: Specialised, launch_bound: int = 0) -> Translated:
    """Translate a specialised workunit to C++.

    Parameters
    ----------
    workunit : Specialised
    launch_bound : int
        Largest number of threads of a block, for register allocation on a device; 0 for none.

    Raises
    ------
    KernelError
        If a scratch extent is not a compile-time constant.
    """
    arguments = tuple((name, view_type(text)) for name, text in workunit.arguments)
    emitter = _Emitter(workunit)
    parts = []
    for node in workunit.tree.body:
        assert isinstance(node, ast.FunctionDef)
        if is_decorated(node, "function"):
            parts.append(emitter.function(node))
        else:
            parts.append(emitter.workunit(node, dict(arguments)))
    parts.append(_entry(arguments, emitter.team, launch_bound, emitter.scratch))
    return Translated("\n".join(parts), arguments, emitter.scratch, bool(emitter.team))


def _entry(
    arguments: tuple[tuple[str, View | str], ...], team: str, launch_bound: int, scratch: int
) -> str:
    """Return the entry point: a macro of the prelude opens it, as the two sides differ."""
    parameters, calls = [], []
    for name, kind in arguments:
        if isinstance(kind, View):
            parameters.append(f"PK_POINTER({TYPES[kind.element]}, {name})")
            calls.append(name)
            for axis in range(kind.rank):
                parameters.append(f"PK_SCALAR(long long, {name}_{axis})")
                calls.append(f"{name}_{axis}")
        else:
            ctype = "double" if kind in ("pk.float", "pk.double") else "long long"
            parameters.append(f"PK_SCALAR({ctype}, {name})")
            calls.append(f"({TYPES[kind]}){name}")
    shape = "TEAM" if team else "RANGE"
    head = f"#define PK_PARAMETERS {' '.join(parameters)}\n#define PK_ARGUMENTS {', '.join(calls)}\n"
    comma = "#define PK_COMMA ,\n" if calls else "#define PK_COMMA\n"
    return f"{head}{comma}PK_ENTRY_{shape}({launch_bound}, {scratch})\n"


class _Emitter:
    """Writes the statements of one workunit."""

    def __init__(self, workunit: Specialised) -> None:
        self.real = TYPES[f"pk.{workunit.real}"]
        self.source = workunit
        self.views: dict[str, View] = {}
        self.team = ""
        self.scratch = 0
        self.accumulators: set[str] = set()

    # ------------------------------------------------------------------ functions
    def function(self, node: ast.FunctionDef) -> str:
        args = ", ".join(f"{TYPES[_text(a.annotation)]} {a.arg}" for a in node.args.args)
        result = TYPES[_text(node.returns)] if node.returns else "void"
        return f"PK_FUNCTION {result} {node.name}({args}) {self.block(node.body)}"

    def workunit(self, node: ast.FunctionDef, arguments: dict[str, View | str]) -> str:
        first = node.args.args[0]
        written = _written(node)
        if _text(first.annotation) == "pk.TeamMember":
            self.team = first.arg
            parameters = [f"const pk::Team& {first.arg}"]
        else:
            parameters = [f"int {first.arg}"]
        for name, kind in arguments.items():
            if isinstance(kind, View):
                self.views[name] = kind
                const = "" if name in written else "const "
                parameters.append(f"{const}{TYPES[kind.element]}* PK_RESTRICT {name}")
                parameters += [f"long long {name}_{axis}" for axis in range(kind.rank)]
            else:
                parameters.append(f"{TYPES[kind]} {name}")
        return f"PK_WORKUNIT void workunit({', '.join(parameters)}) {self.block(node.body)}"

    # ------------------------------------------------------------------ statements
    def block(self, body: list[ast.stmt]) -> str:
        return "{\n" + "".join(self.statement(s) for s in body) + "}\n"

    def statement(self, node: ast.stmt) -> str:
        if isinstance(node, ast.AnnAssign):
            return self.declaration(node)
        if isinstance(node, ast.Assign):
            return f"{self.expr(node.targets[0])} = {self.expr(node.value)};\n"
        if isinstance(node, ast.AugAssign):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}[type(node.op)]
            return f"{self.expr(node.target)} {sign}= {self.expr(node.value)};\n"
        if isinstance(node, ast.For):
            return self.loop(node)
        if isinstance(node, ast.While):
            return f"while ({self.expr(node.test)}) {self.block(node.body)}"
        if isinstance(node, ast.If):
            text = f"if ({self.expr(node.test)}) {self.block(node.body)}"
            return text + (f"else {self.block(node.orelse)}" if node.orelse else "")
        if isinstance(node, ast.Return):
            return f"return {self.expr(node.value)};\n" if node.value else "return;\n"
        if isinstance(node, ast.Continue):
            return "continue;\n"
        if isinstance(node, ast.Break):
            return "break;\n"
        if isinstance(node, ast.FunctionDef):
            return self.nested(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return f"{self.expr(node.value)};\n"
        return ";\n"

    def declaration(self, node: ast.AnnAssign) -> str:
        assert isinstance(node.target, ast.Name)
        name, annotation, value = node.target.id, _text(node.annotation), node.value
        if annotation.startswith("List["):
            assert isinstance(value, ast.List)
            ctype = TYPES[annotation[5:-1]]
            initial = ", ".join(self.expr(e) for e in value.elts)
            return f"{ctype} {name}[{len(value.elts)}] = {{{initial}}};\n"
        if annotation.startswith("pk.ScratchView"):
            return self.scratch_view(name, annotation, value)
        if isinstance(value, ast.Call) and dotted(value.func) == "pk.parallel_reduce":
            where, body = value.args[:2]
            assert isinstance(where, ast.Call) and isinstance(body, ast.Name)
            bound = self.expr(where.args[1])
            space = dotted(where.func).removeprefix("pk.")
            return (
                f"{TYPES[annotation]} {name} = 0;\n"
                f"pk::reduce_{space}({self.team}, {bound}, {body.id}, {name});\n"
            )
        return f"{TYPES[annotation]} {name} = {self.expr(value)};\n"

    def scratch_view(self, name: str, annotation: str, value: ast.expr | None) -> str:
        assert isinstance(value, ast.Call)
        rank = int(annotation[len("pk.ScratchView")])
        element = annotation[annotation.index("[") + 1 : -1]
        extents = value.args[1:]
        if len(extents) != rank or not all(isinstance(e, ast.Constant) for e in extents):
            raise KernelError(
                f"{self.source.name}: scratch view {name!r} needs {rank} compile-time extents"
            )
        shape = [int(e.value) for e in extents]  # type: ignore[attr-defined]
        offset = self.scratch
        size = SIZES[element]
        for extent in shape:
            size *= extent
        self.scratch += (size + 15) // 16 * 16
        self.views[name] = View(element, rank)
        ctype = TYPES[element]
        lines = [f"{ctype}* const {name} = ({ctype}*)({self.team}.scratch + {offset});\n"]
        lines += [f"constexpr long long {name}_{i} = {n};\n" for i, n in enumerate(shape)]
        return "".join(lines)

    def loop(self, node: ast.For) -> str:
        assert isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call)
        bounds = [self.expr(a) for a in node.iter.args]
        start, stop = ("0", bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) == 3 else "1"
        i = node.target.id
        relation = ">" if step.startswith("-") else "<"
        head = f"for (int {i} = {start}; {i} {relation} {stop}; {i} += {step}) "
        pragma = ""
        if _trip_count(node):
            if _unrolled(node) <= UNROLL_LIMIT:
                pragma = "PK_UNROLL\n"
        elif sums := _reductions(node):
            pragma = f"PK_SIMD({', '.join(sorted(sums))})\n"
        return pragma + head + self.block(node.body)

    def nested(self, node: ast.FunctionDef) -> str:
        index, *rest = node.args.args
        parameters = f"int {index.arg}"
        if rest:
            kind = _text(rest[0].annotation)  # pk.Acc[...]
            parameters += f", {TYPES[kind[kind.index('[') + 1 : -1]]}& {rest[0].arg}"
        return f"auto {node.name} = [&]({parameters}) {self.block(node.body)[:-1]};\n"

    # ------------------------------------------------------------------ expressions
    def expr(self, node: ast.expr | None) -> str:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                return "true" if node.value else "false"
            return repr(node.value)
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.BinOp):
            return self.binary(node)
        if isinstance(node, ast.UnaryOp):
            return f"(-{self.expr(node.operand)})" if isinstance(node.op, ast.USub) else self.expr(node.operand)
        if isinstance(node, ast.Compare):
            sign = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">="}
            right = self.expr(node.comparators[0])
            return f"({self.expr(node.left)} {sign[type(node.ops[0]).__name__]} {right})"
        if isinstance(node, ast.BoolOp):
            sign = " && " if isinstance(node.op, ast.And) else " || "
            return "(" + sign.join(self.expr(v) for v in node.values) + ")"
        if isinstance(node, ast.Subscript):
            return self.subscript(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        raise KernelError(f"{self.source.name}: cannot translate {ast.dump(node) if node else node}")

    def binary(self, node: ast.BinOp) -> str:
        if isinstance(node.op, ast.Div):
            numerator, denominator = _uncast(node.left), node.right
            if (
                isinstance(numerator, ast.Constant)
                and numerator.value == 1.0
                and isinstance(denominator, ast.Call)
                and dotted(denominator.func) == "pk.sqrt"
            ):
                return f"pk::rsqrt({self.expr(denominator.args[0])})"
            return f"(({self.real})({self.expr(node.left)}) / ({self.real})({self.expr(node.right)}))"
        sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%"}
        return f"({self.expr(node.left)} {sign[type(node.op)]} {self.expr(node.right)})"

    def subscript(self, node: ast.Subscript) -> str:
        indices: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Subscript):
            indices.insert(0, self.expr(base.slice))
            base = base.value
        assert isinstance(base, ast.Name)
        return f"{base.id}[{self.offset(base.id, indices)}]"

    def offset(self, name: str, indices: list[str]) -> str:
        """Return the row-major offset of an element, in 64 bits."""
        view = self.views.get(name)
        if view is None:
            return indices[0]
        if len(indices) != view.rank:
            raise KernelError(f"{self.source.name}: {name!r} has rank {view.rank}, not {len(indices)}")
        text = f"(long long)({indices[0]})"
        for axis, index in enumerate(indices[1:], start=1):
            text = f"({text} * {name}_{axis} + ({index}))"
        return text

    def call(self, node: ast.Call) -> str:
        name = dotted(node.func)
        owner, _, method = name.rpartition(".")
        if owner == self.team and self.team:
            return f"{owner}.{method}()"
        if method == "parallel_for":
            where, body = node.args[0], node.args[1]
            assert isinstance(where, ast.Call) and isinstance(body, ast.Name)
            space = dotted(where.func).removeprefix("pk.")
            return f"pk::for_{space}({self.team}, {self.expr(where.args[1])}, {body.id})"
        if method == "atomic_add":
            view, index, value = node.args
            assert isinstance(view, ast.Name) and isinstance(index, ast.List)
            where_text = self.offset(view.id, [self.expr(e) for e in index.elts])
            ctype = TYPES[self.views[view.id].element]
            return f"pk::atomic_add(&{view.id}[{where_text}], ({ctype})({self.expr(value)}))"
        arguments = ", ".join(self.expr(a) for a in node.args)
        if name == "int":
            return f"((int)({arguments}))"
        if name in ("pk.float", "pk.double"):
            return f"(({TYPES[name]})({arguments}))"
        if owner == "pk" and method in MATH:
            return f"pk::{method}({arguments})"
        return f"{name}({arguments})"


def _text(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else ""


def _uncast(node: ast.expr) -> ast.expr:
    """Return the literal inside ``pk.float(1.0)``."""
    if isinstance(node, ast.Call) and dotted(node.func) in ("pk.float", "pk.double"):
        return node.args[0]
    return node


def _written(node: ast.FunctionDef) -> set[str]:
    """Return the names whose elements the function stores to."""
    names = set()
    for child in ast.walk(node):
        targets: list[ast.expr] = []
        if isinstance(child, ast.Assign):
            targets = child.targets
        elif isinstance(child, ast.AugAssign):
            targets = [child.target]
        elif isinstance(child, ast.Call) and dotted(child.func) == "pk.atomic_add":
            targets = [child.args[0]]
        for target in targets:
            while isinstance(target, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Name):
                names.add(target.id)
    return names


def _trip_count(node: ast.For) -> int:
    """Return the number of iterations of a constant loop, 0 when it is not constant."""
    assert isinstance(node.iter, ast.Call)
    values = [a.value for a in node.iter.args if isinstance(a, ast.Constant)]
    if len(values) != len(node.iter.args):
        return 0
    return len(range(*values))  # type: ignore[arg-type]


def _unrolled(node: ast.For) -> int:
    """Return how many copies of the innermost body full unrolling would make."""
    inner = [n for n in ast.walk(node) if isinstance(n, ast.For) and n is not node]
    if any(not _trip_count(n) for n in inner) or any(isinstance(n, ast.While) for n in ast.walk(node)):
        return UNROLL_LIMIT + 1
    return _trip_count(node) * max((_unrolled(n) for n in inner), default=1)


def _reductions(node: ast.For) -> set[str]:
    """Return the sums a loop carries, if sums are all it carries; else nothing.

    Such a loop may run in any order: its iterations only read views and add to outer scalars
    that nothing else in the loop touches.
    """
    local: set[str] = {node.target.id} if isinstance(node.target, ast.Name) else set()
    sums: set[str] = set()
    reads: set[str] = set()

    def visit(body: list[ast.stmt]) -> bool:
        for s in body:
            if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name):
                if _text(s.annotation) not in TYPES:
                    return False
                local.add(s.target.id)
                values: list[ast.AST | None] = [s.value]
            elif isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
                if s.targets[0].id not in local:
                    return False
                values = [s.value]
            elif isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
                if s.target.id not in local:
                    if not isinstance(s.op, (ast.Add, ast.Sub)):
                        return False
                    sums.add(s.target.id)
                values = [s.value]
            elif isinstance(s, ast.If):
                if not (visit(s.body) and visit(s.orelse)):
                    return False
                values = [s.test]
            elif isinstance(s, ast.For) and _trip_count(s):
                local.add(s.target.id)  # type: ignore[attr-defined]
                if not visit(s.body):
                    return False
                values = []
            elif isinstance(s, ast.Pass):
                values = []
            else:
                return False
            for value in values:
                for n in ast.walk(value) if value is not None else ():
                    if isinstance(n, ast.Name):
                        reads.add(n.id)
        return True

    return sums if visit(node.body) and not sums & reads else set()
