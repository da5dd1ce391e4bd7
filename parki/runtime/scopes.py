"""What a block reads and writes of its caller's variables, and whether it says so.

A block declares the names that it takes from its caller and those that it leaves or changes there:
``@block(reads="rr y p0", writes="reciprocal")``. Names of parameters, of constants, and what it
declares for itself alone are not among them. What the blocks that it calls need of its caller is.
What those leave, and it uses without leaving it in turn, is ``takes``: ``@block(takes="kk")``.
All branches count, whatever the constants are, and so does every line, whatever the order.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from parki.errors import KernelError
from parki.runtime.linter import is_constant_name
from parki.runtime.syntax import walk

KNOWN = {"pk", "range", "int", "float", "bool", "List"}


def block(reads: str = "", writes: str = "", takes: str = "") -> Callable[[Any], Any]:
    """Declare which of its caller's variables a block reads, and which it leaves or changes.

    And which of the variables that it uses come from the blocks that it calls.

    Nobody calls it: the declaration is read from the text of the file.

    Parameters
    ----------
    reads, writes, takes : str
        Names, with blanks between them.
    """
    raise NotImplementedError("files of blocks are texts, which nobody imports")


class Scope(NamedTuple):
    """The names of a block, of all that it calls, too.

    Attributes
    ----------
    parameters : tuple of str
    loads : frozenset of str
        Names and parameters that it takes from its caller.
    leaves : frozenset of str
        Names and parameters that it declares, for its caller to use.
    changes : frozenset of str
        Names and parameters of its caller that it assigns, or whose elements it does.
    hides : frozenset of str
        Names that it declares for itself alone.
    takes : frozenset of str
        Those of them that its own statements use, and only blocks that it calls declare.
    """

    parameters: tuple[str, ...]
    loads: frozenset[str]
    leaves: frozenset[str]
    changes: frozenset[str]
    hides: frozenset[str]
    takes: frozenset[str]

    @classmethod
    def declared(cls, function: ast.FunctionDef, others: Mapping[str, Scope], where: str) -> Scope:
        """Return the scope of a block, which may call others.

        Raises
        ------
        KernelError
            If it reads or writes another name of its caller than it declares.
        """
        said = dict.fromkeys(("reads", "writes", "takes"), frozenset[str]())
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "block":
                for keyword in decorator.keywords:
                    words = ast.literal_eval(keyword.value)
                    said[str(keyword.arg)] = frozenset(words.split())
        scope = cls.inferred(function, others, where, said["writes"])
        differences = (
            ("reads", scope.reads - said["reads"]),
            ("does not read", said["reads"] - scope.reads),
            ("writes", scope.writes - said["writes"]),
            ("does not write", said["writes"] - scope.writes),
        )
        apart = [f"{verb} {', '.join(sorted(names))}" for verb, names in differences if names]
        lacks = [" and ".join(apart) + " of its caller"] if apart else []
        if unlike := scope.takes ^ said["takes"]:
            verb = "takes" if unlike & scope.takes else "does not take"
            lacks.append(f"{verb} {', '.join(sorted(unlike))} from blocks that it calls")
        if lacks:
            raise KernelError(
                f"{where}: {function.name} {' and '.join(lacks)}, unlike what it declares; "
                f"expected {scope.decorator()}"
            )
        return scope

    @classmethod
    def inferred(
        cls,
        function: ast.FunctionDef,
        others: Mapping[str, Scope],
        where: str,
        leaving: frozenset[str] | None = None,
    ) -> Scope:
        """Return the scope that a block has, if it leaves these of the names that it declares.

        By default it leaves all of them.
        """
        names = _Names(function, others, where)
        used = {node.id for node in walk(function) if isinstance(node, ast.Name)}
        targets = (node.target for node in walk(function) if isinstance(node, ast.AnnAssign))
        declared = {target.id for target in targets if isinstance(target, ast.Name)}
        parameters = tuple(arg.arg for arg in function.args.args)
        leaves = names.declares & (names.declares if leaving is None else leaving | {*parameters})
        return cls(
            parameters,
            frozenset(names.loads - names.declares),
            frozenset(leaves),
            frozenset(names.changes - names.declares),
            frozenset(names.declares - leaves),
            frozenset((names.declares - leaves - declared) & used),
        )

    @property
    def reads(self) -> frozenset[str]:
        """The caller's variables that it takes, except its parameters."""
        return self.loads - {*self.parameters}

    @property
    def writes(self) -> frozenset[str]:
        """The caller's variables that it leaves or changes, except its parameters."""
        return (self.leaves | self.changes) - {*self.parameters}

    def decorator(self) -> str:
        """Return the declaration of what is read, written and taken."""
        parts = {"reads": self.reads, "writes": self.writes, "takes": self.takes}
        texts = [f'{name}="{" ".join(sorted(names))}"' for name, names in parts.items() if names]
        return f"@block({', '.join(texts)})"


def check_workunit(function: ast.FunctionDef, others: Mapping[str, Scope], where: str) -> None:
    """Refuse a function that uses variables which neither it nor a block that it calls declares."""
    names = _Names(function, others, where)
    parameters = {arg.arg for arg in function.args.args}
    if lost := (names.loads | names.changes) - names.declares - parameters:
        raise KernelError(
            f"{where}: {function.name} uses {', '.join(sorted(lost))}, which it does not declare, "
            "nor does any block that it calls"
        )


class _Names:
    """Names that a function loads, declares and changes, itself or by the blocks that it calls."""

    def __init__(self, function: ast.FunctionDef, others: Mapping[str, Scope], where: str) -> None:
        self.others, self.where = others, where
        self.loads: set[str] = set()
        self.declares: set[str] = set()
        self.changes: set[str] = set()
        self.local: set[str] = set()
        self.hidden: dict[str, str] = {}  # and the block that hides each
        self.take(function.body)
        for known in (self.loads, self.declares, self.changes):
            known -= self.local
        used = self.loads | self.declares | self.changes
        for name, block in self.hidden.items():
            if name in used:
                raise KernelError(
                    f"{where}: {function.name} uses {name}, and {block}, which it calls, writes "
                    f"{name} without saying so; add it to the writes of {block}, or rename one"
                )
        self.declares |= {*self.hidden}

    def take(self, body: Iterable[ast.AST]) -> None:
        """Take the names of statements and expressions."""
        for node in body:
            self.visit(node)

    def visit(self, node: ast.AST) -> None:
        """Take the names of a node."""
        match node:
            case ast.FunctionDef():
                inner = _Names(node, self.others, self.where)
                names = {arg.arg for arg in node.args.args} | inner.declares
                self.local.add(node.name)
                self.loads |= inner.loads - names
                self.changes |= inner.changes - names
            case ast.AnnAssign(ast.Name(name), _, value):
                self.declares.add(name)
                self.take([value] if value else [])
            case ast.Assign([target], value) | ast.AugAssign(target, _, value):
                self.store(target)
                self.visit(value)
            case ast.For(ast.Name(name)):
                self.local.add(name)
                self.take([node.iter, *node.body])
            case ast.Expr(ast.Call(ast.Name(name), arguments)) if name in self.others:
                self.call(name, arguments)
            case ast.Call(ast.Name(), arguments):  # of a function, which is no variable
                self.take(arguments)
            case ast.Name(name):
                if not is_constant_name(name) and name not in KNOWN:
                    self.loads.add(name)
            case _:
                self.take(ast.iter_child_nodes(node))

    def store(self, target: ast.AST) -> None:
        """Take the name that is assigned, or whose element is."""
        while isinstance(target, ast.Subscript):
            self.visit(target.slice)
            target = target.value
        if isinstance(target, ast.Name):
            self.changes.add(target.id)

    def call(self, name: str, arguments: list[ast.expr]) -> None:
        """Take the names of a block that is called, with arguments for its parameters."""
        scope = self.others[name]
        by_parameter = dict(zip(scope.parameters, arguments, strict=False))
        for names, known in (
            (scope.loads, self.loads),
            (scope.leaves, self.declares),
            (scope.changes, self.changes),
        ):
            for variable in names:
                argument = by_parameter.get(variable)
                if argument is None:
                    known.add(variable)
                elif isinstance(argument, ast.Name):
                    if not is_constant_name(argument.id):
                        known.add(argument.id)
                elif known is self.loads:
                    self.visit(argument)
                else:
                    self.store(argument)
        self.hidden |= dict.fromkeys(scope.hides, name)


def called(function: ast.FunctionDef) -> set[str]:
    """Return the names of what a function calls as a statement of its own."""
    calls = (node.value for node in walk(function) if isinstance(node, ast.Expr))
    return {
        call.func.id
        for call in calls
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
