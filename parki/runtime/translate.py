"""From a specialised workunit to C++, with one function body for host and device.

The translator adds what the dialect cannot express: ``const`` and ``restrict``, 64-bit indices
into views, `simd` reductions over loops that only carry sums, and unrolling of constant loops on
a device. The text uses a small run-time library (namespace ``pk``) in ``host.hpp`` and
``device.hpp``. This module neither compiles nor launches.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from parki.errors import KernelError
from parki.runtime.linter import ATOMICS, MATH, dotted, is_decorated
from parki.runtime.specialise import Specialised
from parki.runtime.syntax import (
    DTYPES,
    REALS,
    SYMBOLS,
    TYPES,
    UNROLL_LIMIT,
    elementwise,
    expect,
    index_of,
    reductions,
    trip_range,
    unparse,
    unrolled,
    written,
)


@dataclass(frozen=True)
class View:
    """A view argument: element type in the dialect, and rank."""

    element: str
    rank: int


@dataclass(frozen=True)
class Translated:
    """The C++ text of one workunit.

    Attributes
    ----------
    text : str
        The body to follow ``#include "host.hpp"`` or ``"device.hpp"``.
    arguments : tuple of (name, View or scalar type)
        Arguments of a launch, in order. A view takes 1 + rank slots (pointer, extents), a scalar
        one.
    scratch : int
        Bytes of a team's scratch memory.
    team : bool
        Whether one work item is a team.
    tables : mapping from str to tuple of int
        Shapes of the views that are passed by value, element by element.
    """

    text: str
    arguments: tuple[tuple[str, View | str], ...]
    scratch: int
    team: bool
    tables: Mapping[str, tuple[int, ...]]


def view_type(annotation: str) -> View | str:
    """Return the `View` of ``pk.View2D[pk.double]``, or a scalar annotation unchanged."""
    if annotation.startswith("pk.View"):
        return View(annotation[annotation.index("[") + 1 : -1], int(annotation[len("pk.View")]))
    return annotation


def translate(
    workunit: Specialised,
    launch_bound: int = 0,
    tables: Mapping[str, tuple[int, ...]] | None = None,
) -> Translated:
    """Translate a specialised workunit to C++.

    Parameters
    ----------
    workunit : Specialised
    launch_bound : int
        Largest number of threads in a block, for register allocation on a device; 0 for none.
    tables : mapping from str to tuple of int, optional
        Shapes of the views that are passed by value. Their elements are parameters of the entry,
        which a GPU keeps in constant memory, fast to read and without registers.
    """
    arguments = tuple((name, view_type(text)) for name, text in workunit.arguments)
    emitter = _Emitter(workunit)
    parts = []
    for statement in expect(workunit.tree, ast.Module).body:
        node = expect(statement, ast.FunctionDef)
        if is_decorated(node, "function"):
            parts.append(emitter.function(node))
        else:
            parts.append(emitter.workunit(node, dict(arguments)))
    shapes = dict(tables or {})
    parts.append(_entry(arguments, emitter.team, launch_bound, emitter.scratch, shapes))
    return Translated("\n".join(parts), arguments, emitter.scratch, bool(emitter.team), shapes)


def extent(view: str, axis: int) -> str:
    """Return the C++ name of a view's extent; the linter reserves names with ``pk_``."""
    return f"pk_extent_{view}_{axis}"


def element(array: str, index: int) -> str:
    """Return the C++ name of an array's element while it is a scalar."""
    return f"pk_{array}_{index}"


def _entry(
    arguments: tuple[tuple[str, View | str], ...],
    team: str,
    launch_bound: int,
    scratch: int,
    tables: Mapping[str, tuple[int, ...]],
) -> str:
    """Return the entry point; it opens with a macro, because host and device differ."""
    parameters, calls = [], []
    for name, kind in arguments:
        if isinstance(kind, View) and name in tables:
            ctype, shape = TYPES[kind.element], tables[name]
            values = [f"pk_{name}_{i}" for i in range(math.prod(shape))]
            parameters += [f"PK_SCALAR({ctype}, {value})" for value in values]
            table = f"pk::Table<{ctype}, {len(values)}>"
            calls += [f"{table}{{{{{', '.join(values)}}}}}.values", *map(str, shape)]
        elif isinstance(kind, View):
            parameters.append(f"PK_POINTER({TYPES[kind.element]}, {name})")
            calls.append(name)
            for axis in range(kind.rank):
                parameters.append(f"PK_SCALAR(long long, {extent(name, axis)})")
                calls.append(extent(name, axis))
        else:
            ctype = "double" if kind in REALS else "long long"
            parameters.append(f"PK_SCALAR({ctype}, {name})")
            calls.append(f"({TYPES[kind]}){name}")
    form = "TEAM" if team else "RANGE"
    return (
        f"#define PK_PARAMETERS {' '.join(parameters)}\n"
        f"#define PK_ARGUMENTS {', '.join(calls)}\n"
        f"#define PK_COMMA{' ,' if calls else ''}\n"
        f"PK_ENTRY_{form}({launch_bound}, {scratch})\n"
    )


class _Emitter:
    """Writes the statements of one workunit."""

    def __init__(self, workunit: Specialised) -> None:
        self.real = TYPES[f"pk.{workunit.real}"]
        self.source = workunit
        self.views: dict[str, View] = {}
        self.team = ""
        self.scratch = 0
        self.in_simd = False
        self.arrays: dict[str, tuple[str, int]] = {}  # type and length of local arrays
        self.apart: set[str] = set()  # arrays whose elements are currently scalars
        self.known: dict[str, int] = {}  # indices of unrolled constant loops

    # ------------------------------------------------------------------ functions
    def function(self, node: ast.FunctionDef) -> str:
        args = ", ".join(f"{TYPES[unparse(a.annotation)]} {a.arg}" for a in node.args.args)
        result = TYPES[unparse(node.returns)] if node.returns else "void"
        return f"PK_FUNCTION {result} pk_function_{node.name}({args}) {self.block(node.body)}"

    def workunit(self, node: ast.FunctionDef, arguments: dict[str, View | str]) -> str:
        first = node.args.args[0]
        stored = written(node)
        if unparse(first.annotation) == "pk.TeamMember":
            self.team = first.arg
            parameters = [f"const pk::Team& {first.arg}"]
        else:
            parameters = [f"int {first.arg}"]
        for name, kind in arguments.items():
            if isinstance(kind, View):
                self.views[name] = kind
                const = "" if name in stored else "const "
                parameters.append(f"{const}{TYPES[kind.element]}* PK_RESTRICT {name}")
                parameters += [f"long long {extent(name, axis)}" for axis in range(kind.rank)]
            else:
                parameters.append(f"{TYPES[kind]} {name}")
        return f"PK_WORKUNIT void pk_workunit({', '.join(parameters)}) {self.block(node.body)}"

    # ------------------------------------------------------------------ statements
    def block(self, body: list[ast.stmt]) -> str:
        return "{\n" + "".join(self.statement(s) for s in body) + "}\n"

    def statement(self, node: ast.stmt) -> str:
        if isinstance(node, ast.AnnAssign):
            return self.declaration(node)
        if isinstance(node, ast.Assign):
            return f"{self.expr(node.targets[0])} = {self.expr(node.value)};\n"
        if isinstance(node, ast.AugAssign):
            sign = SYMBOLS[type(node.op)]
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
        if isinstance(node, (ast.Continue, ast.Break)):
            return f"{type(node).__name__.lower()};\n"
        if isinstance(node, ast.FunctionDef):
            return self.nested(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return f"{self.expr(node.value)};\n"
        return ";\n"

    def declaration(self, node: ast.AnnAssign) -> str:
        name, annotation = expect(node.target, ast.Name).id, unparse(node.annotation)
        value = node.value
        if annotation.startswith("List["):
            elements = expect(value, ast.List).elts
            initial = ", ".join(self.expr(e) for e in elements)
            ctype = TYPES[annotation[5:-1]]
            self.arrays[name] = ctype, len(elements)
            return f"{ctype} {name}[{len(elements)}] = {{{initial}}};\n"
        if annotation.startswith("pk.ScratchView"):
            return self.scratch_view(name, annotation, value)
        if isinstance(value, ast.Call) and dotted(value.func) == "pk.parallel_reduce":
            space, bound, body = self.range_and_body(value)
            return (
                f"{TYPES[annotation]} {name} = 0;\n"
                f"pk::reduce_{space}({self.team}, {bound}, {body}, {name});\n"
            )
        return f"{TYPES[annotation]} {name} = {self.expr(value)};\n"

    def scratch_view(self, name: str, annotation: str, value: ast.expr | None) -> str:
        rank = int(annotation[len("pk.ScratchView")])
        element = annotation[annotation.index("[") + 1 : -1]
        extents = expect(value, ast.Call).args[1:]
        if len(extents) != rank or not all(isinstance(e, ast.Constant) for e in extents):
            self.refuse(value, f"scratch view {name!r} needs {rank} compile-time extents")
        shape = [int(unparse(e)) for e in extents]
        offset = self.scratch
        self.scratch += (DTYPES[element].itemsize * math.prod(shape) + 15) // 16 * 16
        self.views[name] = View(element, rank)
        ctype = TYPES[element]
        lines = [f"{ctype}* const {name} = ({ctype}*)({self.team}.scratch + {offset});\n"]
        lines += [f"constexpr long long {extent(name, i)} = {n};\n" for i, n in enumerate(shape)]
        return "".join(lines)

    def loop(self, node: ast.For) -> str:
        call = expect(node.iter, ast.Call)
        bounds = [self.expr(a) for a in call.args]
        start, stop = ("0", bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) == 3 else "1"
        i = expect(node.target, ast.Name).id
        trip = trip_range(node)
        if self.in_simd and trip:
            # Compilers vectorise innermost loops only, so constant loops inside are unrolled.
            text = ""
            for value in trip:
                self.known[i] = value
                text += f"{{ constexpr int {i} = {value};\n{self.block(node.body)}}}\n"
            del self.known[i]
            return text
        relation = ">" if step.startswith("(-") else "<"
        head = f"for (int {i} = {start}; {i} {relation} {stop}; {i} += {step}) "
        if trip:
            pragma = "PK_UNROLL\n" if unrolled(node) <= UNROLL_LIMIT else ""
            if elementwise(node):
                pragma = "PK_ELEMENTWISE\n"
            return pragma + head + self.block(node.body)
        if sums := reductions(node, self.arrays):
            return self.simd(head, node.body, sorted(sums))
        return head + self.block(node.body)

    def simd(self, head: str, body: list[ast.stmt], sums: list[str]) -> str:
        """Return a loop that adds to ``sums``; elements of arrays are scalars in it.

        Compilers would spill sums in arrays.
        """
        self.apart = {name for name in sums if name in self.arrays}
        names, before, after = [name for name in sums if name not in self.arrays], "", ""
        for name in sorted(self.apart):
            ctype, length = self.arrays[name]
            for i in range(length):
                names.append(element(name, i))
                before += f"{ctype} {names[-1]} = {name}[{i}];\n"
                after += f"{name}[{i}] = {names[-1]};\n"
        self.in_simd = True
        text = f"PK_SIMD({', '.join(names)})\n{head}{self.block(body)}"
        self.in_simd, self.apart = False, set()
        return f"{{\n{before}{text}{after}}}\n" if before else text

    def nested(self, node: ast.FunctionDef) -> str:
        index, *rest = node.args.args
        parameters = f"int {index.arg}"
        if rest:
            kind = unparse(rest[0].annotation)  # pk.Acc[...]
            parameters += f", {TYPES[kind[kind.index('[') + 1 : -1]]}& {rest[0].arg}"
        return f"auto {node.name} = [&]({parameters}) PK_INLINE {self.block(node.body)[:-1]};\n"

    # ------------------------------------------------------------------ expressions
    def expr(self, node: ast.expr | None) -> str:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                return "true" if node.value else "false"
            literal = repr(node.value)
            return f"({literal})" if literal.startswith("-") else literal
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.BinOp):
            return self.binary(node)
        if isinstance(node, ast.UnaryOp):
            return f"({SYMBOLS[type(node.op)]}{self.expr(node.operand)})"
        if isinstance(node, ast.Compare):
            sign = SYMBOLS[type(node.ops[0])]
            return f"({self.expr(node.left)} {sign} {self.expr(node.comparators[0])})"
        if isinstance(node, ast.BoolOp):
            return "(" + SYMBOLS[type(node.op)].join(self.expr(v) for v in node.values) + ")"
        if isinstance(node, ast.Subscript):
            return self.subscript(node)
        return self.call(expect(node, ast.Call))

    def binary(self, node: ast.BinOp) -> str:
        if isinstance(node.op, ast.Div):
            numerator, denominator = node.left, node.right
            if isinstance(numerator, ast.Call) and dotted(numerator.func) in REALS:
                numerator = numerator.args[0]  # the literal inside pk.float(1.0)
            if (
                isinstance(numerator, ast.Constant)
                and numerator.value == 1.0
                and isinstance(denominator, ast.Call)
                and dotted(denominator.func) == "pk.sqrt"
            ):
                return f"pk::rsqrt({self.expr(denominator.args[0])})"
            left, right = self.expr(node.left), self.expr(node.right)
            return f"(({self.real})({left}) / ({self.real})({right}))"
        return f"({self.expr(node.left)} {SYMBOLS[type(node.op)]} {self.expr(node.right)})"

    def subscript(self, node: ast.Subscript) -> str:
        indices: list[ast.expr] = []
        base: ast.expr = node
        while isinstance(base, ast.Subscript):
            indices.insert(0, base.slice)
            base = base.value
        name = expect(base, ast.Name).id
        if name in self.apart and (index := index_of(node.slice, self.known)) is not None:
            return element(name, index)
        return f"{name}[{self.offset(node, name, indices)}]"

    def offset(self, node: ast.expr, name: str, indices: list[ast.expr]) -> str:
        """Return the row-major offset of an element, in 64 bits.

        If the last index is x + y, y is added last, in 64 bits. Compilers then see contiguous
        elements if y is a loop index. With a 32-bit sum g++ 12 did not, and gathered them singly.
        """
        rank = self.views[name].rank if name in self.views else 1
        if len(indices) != rank:
            self.refuse(node, f"{name!r} has rank {rank}, not {len(indices)}")
        if name not in self.views:
            return self.expr(indices[0])
        last: ast.expr = indices[-1]
        added = ""
        while isinstance(last, ast.BinOp) and isinstance(last.op, ast.Add):
            added, last = f" + ({self.expr(last.right)}){added}", last.left
        offset = ""
        for axis, index in enumerate([*indices[:-1], last]):
            before = f"{offset} * {extent(name, axis)} + " if axis else "(long long)"
            offset = f"({before}({self.expr(index)}))"
        return f"({offset}{added})" if added else offset

    def refuse(self, node: ast.expr | None, why: str) -> NoReturn:
        raise KernelError(f"{self.source.name}: {unparse(node)}: {why}")

    def call(self, node: ast.Call) -> str:
        name = dotted(node.func)
        owner, _, method = name.rpartition(".")
        if owner == self.team and self.team:
            return f"{owner}.{method}()"
        if method == "parallel_for":
            space, bound, body = self.range_and_body(node)
            return f"pk::for_{space}({self.team}, {bound}, {body})"
        if method == "parallel_reduce":
            self.refuse(node, "declare its result: x: REAL = pk.parallel_reduce(...)")
        if method in ATOMICS:
            view, indices, value = node.args
            target = expect(view, ast.Name).id
            if target not in self.views:
                self.refuse(node, f"{target!r} is not a view")
            where = self.offset(node, target, expect(indices, ast.List).elts)
            ctype = TYPES[self.views[target].element]
            return f"pk::{method}(&{target}[{where}], ({ctype})({self.expr(value)}))"
        arguments = ", ".join(self.expr(a) for a in node.args)
        if name == "int":
            return f"((int)({arguments}))"
        if name in REALS:
            return f"(({TYPES[name]})({arguments}))"
        if owner == "pk" and method in MATH:
            return f"pk::{method}({arguments})"
        return f"pk_function_{name}({arguments})"

    def range_and_body(self, call: ast.Call) -> tuple[str, str, str]:
        """Return range name, bound and body name of a nested parallel call."""
        where, body = expect(call.args[0], ast.Call), expect(call.args[1], ast.Name)
        return dotted(where.func).removeprefix("pk."), self.expr(where.args[1]), body.id
