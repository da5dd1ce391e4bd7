"""Enforces the kernel dialect, which both the embedded executor and upstream PyKokkos accept.

The linter reads the syntax tree of a kernel file, and raises `KernelError` with file, line and
remedy at the first construct outside the dialect. Upstream refuses most of these constructs, and
silently translates some into different arithmetic (``docs/dialect.md``). Names in capitals are
taken as compile-time constants of the file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from parki.errors import KernelError

SCALARS = {"int", "bool", "pk.int32", "pk.int64", "pk.float", "pk.double", "REAL"}
VIEW_ELEMENTS = {"pk.int32", "pk.int64", "pk.float", "pk.double", "REAL"}
MATH = {"sqrt", "floor", "fabs", "exp", "erf", "erfc", "fmin", "fmax"}
CASTS = {"REAL", "int", "pk.float", "pk.double"}
ATOMICS = {"atomic_add", "atomic_fetch_add"}  # the second one returns the old value
TEAM_METHODS = {"league_rank", "team_rank", "team_size", "team_barrier", "team_scratch"}
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
RANGES = {"TeamThreadRange", "ThreadVectorRange"}
# Upstream passes arguments on by keyword, through functions with parameters of these names.
UPSTREAM_KEYWORDS = set(
    """entity force_uvm initial_value members module_setup name operation parser policy
    restrict_signature restrict_views self space types_signature updated_decorator updated_types
    workunit""".split()
)
RESERVED = set(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
    class compl const const_cast constexpr continue decltype default delete do double dynamic_cast
    else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw true try typedef typeid typename union unsigned using
    virtual void volatile wchar_t while xor xor_eq""".split()
)


def dotted(node: ast.AST) -> str:
    """Return ``a.b`` for a name or attribute, ``a.b[...]`` for a subscripted one, else ''."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def is_decorated(node: ast.FunctionDef, decorator: str) -> bool:
    """Return whether a function carries ``@pk.<decorator>``."""
    return any(dotted(d) == f"pk.{decorator}" for d in node.decorator_list)


def is_constant_name(name: str) -> bool:
    """Return whether a name denotes a compile-time constant (capitals, digits, underscores)."""
    return name.isupper()


def lint(tree: ast.Module, path: Path) -> None:
    """Refuse the first construct of a kernel file that is outside the dialect.

    Parameters
    ----------
    tree : ast.Module
        Syntax tree of the generic (not yet specialised) file.
    path : Path
        Path of the file, for the message.
    """
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            if not (is_decorated(node, "workunit") or is_decorated(node, "function")):
                _refuse(path, node, "an undecorated function", "use @pk.workunit or @pk.function")
            _FunctionLinter(path, functions).check(node)
        elif isinstance(node, ast.Import):
            if [(a.name, a.asname) for a in node.names] != [("pykokkos", "pk")]:
                _refuse(path, node, "this import", "only 'import pykokkos as pk', on its own")
        elif isinstance(node, ast.ImportFrom):
            if node.module != "typing":
                _refuse(path, node, "this import", "only 'from typing import List' is allowed")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not all(isinstance(t, ast.Name) and is_constant_name(t.id) for t in targets):
                _refuse(path, node, "a module variable", "module names are CONSTANTS in capitals")
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            _refuse(path, node, "a module-level statement", "kernel files hold kernels only")


def _refuse(path: Path, node: ast.AST, what: str, remedy: str) -> NoReturn:
    line = getattr(node, "lineno", 0)
    raise KernelError(f"{path.name}:{line}: {what} is not in the kernel dialect; {remedy}")


def _repeats_constants(node: ast.expr) -> bool:
    """Return whether an expression is ``[...] * N`` with constants only."""
    names = (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
    match node:
        case ast.BinOp(ast.List(), ast.Mult(), _):
            return all(map(is_constant_name, names))
    return False


class _FunctionLinter:
    """Checks one workunit or function, statement by statement."""

    def __init__(self, path: Path, functions: set[str]) -> None:
        self.path = path
        self.functions = functions
        self.declared: set[str] = set()
        self.parameters: set[str] = set()
        self.scopes: list[set[str]] = [set()]  # names declared in the blocks around a statement
        self.captured: set[str] = set()  # names that a nested body takes from outside
        self.nested: set[str] = set()
        self.team = ""
        self.returns_value = False

    def refuse(self, node: ast.AST, what: str, remedy: str) -> NoReturn:
        _refuse(self.path, node, what, remedy)

    def check(self, node: ast.FunctionDef) -> None:
        self.returns_value = is_decorated(node, "function")
        if self.returns_value and node.returns is None:
            self.refuse(node, "a function without a return type", "annotate it: -> REAL")
        self.name(node, node.name)
        self.arguments(node)
        self.block(node.body)

    def arguments(self, node: ast.FunctionDef) -> None:
        a = node.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs or a.defaults:
            self.refuse(node, "a signature with defaults or stars", "annotated arguments only")
        for arg in a.args:
            self.name(arg, arg.arg)
            kind = dotted(arg.annotation) if arg.annotation else ""
            if kind not in SCALARS and self.returns_value:
                self.refuse(arg, f"the argument {arg.arg!r}", "functions take scalars only")
            if kind == "pk.TeamMember":
                self.team = arg.arg
            elif not (kind in SCALARS or (arg.annotation and self.is_view(arg.annotation, "View"))):
                self.refuse(arg, f"the annotation of {arg.arg!r}", "use int, REAL, pk.ViewND[...]")
            if arg.arg in UPSTREAM_KEYWORDS:
                self.refuse(arg, f"the argument {arg.arg!r}", "upstream uses it, choose another")
            self.declared.add(arg.arg)
            self.scopes[0].add(arg.arg)
            if not self.returns_value:
                self.parameters.add(arg.arg)

    def is_view(self, annotation: ast.expr, prefix: str) -> bool:
        if not isinstance(annotation, ast.Subscript):
            return False
        outer = dotted(annotation.value)
        ranks = {f"pk.{prefix}{n}D" for n in range(1, 5)}
        return outer in ranks and dotted(annotation.slice) in VIEW_ELEMENTS

    def name(self, node: ast.AST, name: str) -> None:
        if name in RESERVED:
            self.refuse(node, f"the name {name!r}", "it is a C++ keyword: choose another")
        if name.startswith("pk_"):
            self.refuse(node, f"the name {name!r}", "names with pk_ belong to the translator")
        if is_constant_name(name):
            self.refuse(node, f"the name {name!r}", "names in capitals are constants of the file")

    def block(self, body: Iterable[ast.stmt], *names: str) -> None:
        """Check a block in which ``names`` are declared from the start."""
        self.scopes.append(set(names))
        for statement in body:
            self.statement(statement)
        self.scopes.pop()

    def declare(self, node: ast.AST, name: str) -> None:
        self.name(node, name)
        if any(name in scope for scope in self.scopes):
            # In C++ this declares another variable, and the outer one keeps its value.
            self.refuse(node, f"declaring {name!r} again", "assign without annotation, or rename")
        self.declared.add(name)
        self.captured.discard(name)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.AnnAssign):
            self.declaration(node)
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            target, *others = node.targets if isinstance(node, ast.Assign) else [node.target]
            if others:
                self.refuse(node, "a chained assignment", "assign one name at a time")
            operator = node.op if isinstance(node, ast.AugAssign) else ast.Add()
            if not isinstance(operator, (ast.Add, ast.Sub, ast.Mult)):
                self.refuse(node, "this augmented assignment", "use +=, -= or *=")
            self.target(target)
            self.expression(node.value)
        elif isinstance(node, ast.For):
            self.loop(node)
        elif isinstance(node, (ast.While, ast.If)):
            self.expression(node.test)
            self.block(node.body)
            if isinstance(node, ast.While) and node.orelse:
                self.refuse(node, "while ... else", "drop the else")
            self.block(node.orelse)
        elif isinstance(node, ast.Return):
            if node.value is not None:
                if not self.returns_value:
                    self.refuse(node, "a returned value in a workunit", "write to a view instead")
                self.expression(node.value)
        elif isinstance(node, ast.Expr):
            if not isinstance(node.value, ast.Constant):
                if not isinstance(node.value, ast.Call):
                    self.refuse(node, "an expression statement", "only calls stand alone")
                self.expression(node.value)
        elif isinstance(node, ast.FunctionDef):
            self.nested_body(node)
        elif not isinstance(node, (ast.Continue, ast.Break, ast.Pass)):
            self.refuse(node, type(node).__name__, "see docs/dialect.md for the statements allowed")

    def declaration(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.refuse(node, "an annotated non-name", "annotate local names only")
        self.declare(node, node.target.id)
        self.scopes[-1].add(node.target.id)
        if node.value is None:
            self.refuse(node, "a declaration without a value", "give it a value")
        annotation = node.annotation
        if isinstance(annotation, ast.Subscript) and dotted(annotation.value) == "List":
            if isinstance(node.value, ast.List):
                for element in node.value.elts:
                    self.expression(element)
            elif not _repeats_constants(node.value):
                self.refuse(node, "this array", "write [0.0, ...] or [0.0] * CONSTANT")
        elif self.is_view(annotation, "ScratchView"):
            call = node.value
            if not isinstance(call, ast.Call) or len(call.args) < 2:
                self.refuse(node, "this scratch view", "pk.ScratchView1D(team.team_scratch(0), N)")
        elif dotted(annotation) in SCALARS:
            self.expression(node.value)
        else:
            self.refuse(node, "this local's type", "use int, pk.int64, REAL, List[...] or scratch")

    def target(self, node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            if node.id not in self.declared:
                self.refuse(node, f"assigning undeclared {node.id!r}", "annotate it at first use")
            if node.id in self.parameters:
                self.refuse(node, f"assigning the argument {node.id!r}", "copy it to a local first")
            if node.id in self.captured:
                # Python sees a local of the body, C++ one variable for all threads of a team.
                self.refuse(node, f"assigning {node.id!r} in a nested body", "use a local")
        elif isinstance(node, ast.Subscript):
            self.expression(node)
        else:
            self.refuse(node, "this assignment target", "assign to a local name or v[i][j]")

    def loop(self, node: ast.For) -> None:
        call = node.iter
        if not (isinstance(call, ast.Call) and dotted(call.func) == "range" and call.args):
            self.refuse(node, "a loop over anything but range()", "use range() or while")
        if not isinstance(node.target, ast.Name) or node.orelse:
            self.refuse(node, "this loop", "one loop variable, no else")
        for argument in call.args:
            self.expression(argument)
        step = call.args[2] if len(call.args) == 3 else ast.Constant(1)
        constant = isinstance(step, ast.Name) and is_constant_name(step.id)
        if not constant and not isinstance(step, ast.Constant):
            # Upstream compares with < unless it sees a minus sign.
            self.refuse(node, "this step", "a step is a positive constant; use while otherwise")
        self.declare(node, node.target.id)
        self.block(node.body, node.target.id)

    def nested_body(self, node: ast.FunctionDef) -> None:
        if node.decorator_list or not node.args.args:
            self.refuse(node, "this nested function", "def body(t: int): for parallel_for")
        for index, arg in enumerate(node.args.args):
            kind = dotted(arg.annotation) if arg.annotation else ""
            accumulates = isinstance(arg.annotation, ast.Subscript) and index == 1
            if kind != "int" and not accumulates:
                self.refuse(node, "this nested signature", "(t: int), (t: int, acc: pk.Acc[REAL])")
            if arg.arg in self.parameters:
                # Upstream drops the parameter from the body's signature.
                what = f"the body's argument {arg.arg!r}"
                self.refuse(node, what, "the workunit has one of this name: rename it")
            self.name(arg, arg.arg)
        self.name(node, node.name)
        self.nested.add(node.name)
        outer = self.scopes, self.captured
        parameters = {arg.arg for arg in node.args.args}
        self.scopes, self.captured = [self.parameters], self.declared - parameters
        self.declared |= parameters
        self.block(node.body, *parameters)
        self.scopes, self.captured = outer

    def expression(self, node: ast.expr) -> None:
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        if isinstance(node, ast.Subscript):
            self.subscript(node)
            return
        if isinstance(node, ast.Call):
            self.call(node)
            return
        if isinstance(node, ast.Constant):
            if not isinstance(node.value, (bool, int, float)):
                self.refuse(node, f"the literal {node.value!r}", "use numbers")
        elif isinstance(node, ast.Name):
            if node.id not in self.declared and not is_constant_name(node.id):
                self.refuse(node, f"the unknown name {node.id!r}", "declare it, or pass it in")
        elif isinstance(node, ast.BinOp):
            if not isinstance(node.op, OPERATORS):
                self.refuse(node, "this operator", "use + - * / // % (// and % truncate as in C)")
        elif isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.Not):
                remedy = "turn the comparison around: upstream drops the parentheses"
                self.refuse(node, "not", remedy)
            if isinstance(node.operand, (ast.BinOp, ast.Compare, ast.BoolOp)):
                # Upstream drops the parentheses: -(a + b) becomes -(a) + (b).
                self.refuse(node, "a sign before an expression", "write 0 - (...) or name it first")
        elif isinstance(node, ast.Compare):
            if len(node.ops) != 1:
                self.refuse(node, "a chained comparison", "write a < b and b < c")
            if any(isinstance(side, (ast.Compare, ast.BoolOp)) for side in parts):
                self.refuse(node, "a comparison of conditions", "nest the if statements")
        elif isinstance(node, ast.BoolOp):
            if any(isinstance(value, ast.BoolOp) for value in parts):
                # Upstream drops the parentheses: (a or b) and c becomes a || b && c.
                self.refuse(node, "and/or inside and/or", "nest the if statements")
        else:
            remedy = {
                ast.IfExp: "use an if statement",
                ast.Tuple: "write v[i][j], one value at a time",
                ast.Attribute: "only pk.<name> and team.<method>() are known",
            }.get(type(node), "see docs/dialect.md")
            self.refuse(node, type(node).__name__, remedy)
        for part in parts:
            self.expression(part)

    def subscript(self, node: ast.Subscript) -> None:
        base: ast.expr = node
        while isinstance(base, ast.Subscript):
            if isinstance(base.slice, (ast.Tuple, ast.Slice)):
                self.refuse(node, "v[i, j] or a slice", "write v[i][j]")
            self.expression(base.slice)
            base = base.value
        if not isinstance(base, ast.Name) or base.id not in self.declared:
            self.refuse(node, "indexing this", "index views, scratch views and local arrays")

    def call(self, node: ast.Call) -> None:
        if node.keywords:
            self.refuse(node, "a keyword argument", "pass arguments by position")
        name = dotted(node.func)
        owner, _, method = name.rpartition(".")
        if owner == self.team and method in TEAM_METHODS:
            if method == "team_barrier" and node.args:
                self.refuse(node, "arguments of team_barrier", "it takes none")
            return
        if self.returns_value and method in ("parallel_for", "parallel_reduce", *ATOMICS):
            self.refuse(node, f"{method} in a function", "upstream has it in workunits only")
        if owner == "pk" and method in ("parallel_for", "parallel_reduce"):
            where, body = (*node.args, None, None)[:2]
            inner = dotted(where.func) if isinstance(where, ast.Call) else ""
            if inner.removeprefix("pk.") not in RANGES or not isinstance(body, ast.Name):
                self.refuse(node, f"this {method}", "pk.TeamThreadRange(team, n) and a nested body")
            elif body.id not in self.nested:
                self.refuse(node, f"the unknown body {body.id!r}", "define it above, in here")
            elif isinstance(where, ast.Call):
                for bound in where.args[1:]:
                    self.expression(bound)
            return
        if owner == "pk" and method in ATOMICS:
            if len(node.args) != 3 or not isinstance(node.args[1], ast.List):
                self.refuse(node, f"this {method}", f"write pk.{method}(v, [i, j], x)")
            for index in node.args[1].elts:
                self.expression(index)
            self.expression(node.args[2])
            return
        known = name in CASTS or name in self.functions
        if known or (owner == "pk" and method in MATH):
            for argument in node.args:
                self.expression(argument)
            return
        casts = ("float", "pk.int32", "pk.int64")
        remedy = "cast with REAL(x) or int(x)" if name in casts else "see docs/dialect.md"
        self.refuse(node, f"calling {name or 'this'}", remedy)
