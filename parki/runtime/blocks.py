"""Blocks: statements common to several kernels, inserted wherever they are called.

A kernel file says ``from kernels.pairs.spheres import interact`` and calls it as a statement. The
call is replaced by the function's body, with arguments for parameters; all other names refer to the
caller's variables, and ``@block(reads=..., writes=...)`` says which (`scopes`). Blocks may call
blocks of their own file and its imports. Constants at the top of their file join the kernel's. A
constant may choose another file of the same folder, or be the text of one. Later steps, upstream
PyKokkos included, read plain files.
"""

from __future__ import annotations

import ast
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parki.errors import KernelError
from parki.runtime import forks
from parki.runtime.linter import is_decorated
from parki.runtime.scopes import Scope, called, check_workunit

PACKAGE = "kernels."
# Python 3.11 counts the depth of a tree over all threads, so that two threads parsing at the same
# time both end with a SystemError.
_one_at_a_time = forks.Lock()


def parsed(path: Path, text: str) -> ast.Module:
    """Return the syntax tree of a file, whose text was read."""
    with _one_at_a_time:
        return ast.parse(text, filename=str(path))


def expand(
    tree: ast.Module, path: Path, folder: Path, chosen: Mapping[str, str] | None = None
) -> ast.Module:
    """Write out the blocks that a kernel file imports.

    Parameters
    ----------
    tree : ast.Module
        Syntax tree of the file; changed in place.
    path : Path
        Path of the file, for messages.
    folder : Path
        That of parki's kernels, in which ``kernels.blocks`` is looked up.
    chosen : mapping of str to str, optional
        Files of the folders that it names, in place of those imported: ``{"pairs": "spheres"}``; or
        their texts.
    """
    files = _Files(folder)
    blocks = files.imported(tree, path, chosen or {})
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and is_decorated(node, "workunit"):
            check_workunit(node, _scopes(blocks), f"{path.name}:{node.lineno}")
    # Constants of blocks come last: they may be made of the kernel's.
    imports = _imports(tree)
    tree.body = [node for node in tree.body if node not in imports] + files.constants
    if blocks:
        _Expander(blocks, path).visit(tree)
    return tree


def _imports(tree: ast.Module) -> list[ast.ImportFrom]:
    nodes = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return [node for node in nodes if str(node.module).startswith(PACKAGE)]


@dataclass
class _Shared:
    """A block of a file, or of a text, and those that it may call."""

    function: ast.FunctionDef
    others: dict[str, _Shared]
    file: str
    generated: bool

    @forks.cached_property
    def scope(self) -> Scope:
        """What it reads and writes of its caller; what a file declares is checked."""
        others = {name: self.others[name] for name in called(self.function) if name in self.others}
        scope = Scope.inferred if self.generated else Scope.declared
        return scope(self.function, _scopes(others), f"{self.file}:{self.function.lineno}")


def _scopes(blocks: Mapping[str, _Shared]) -> dict[str, Scope]:
    return {name: block.scope for name, block in blocks.items()}


class _Files:
    """The files of blocks that a kernel needs, and the constants at their top."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blocks: dict[Path, dict[str, _Shared]] = {}
        self.constants: list[ast.stmt] = []

    def imported(
        self, tree: ast.Module, path: Path, chosen: Mapping[str, str]
    ) -> dict[str, _Shared]:
        """Return the blocks that a file imports."""
        blocks, values = {}, dict(chosen)
        for node in _imports(tree):
            where = f"{path.name}:{node.lineno}"
            inner, _, name = str(node.module).removeprefix(PACKAGE).rpartition(".")
            values.pop(inner, None)
            replacement = chosen.get(inner, name)
            text = replacement if "\n" in replacement else None
            file = self.folder / inner.replace(".", "/") / f"{inner if text else replacement}.py"
            if not inner or not (text or file.is_file()):
                raise KernelError(f"{where}: there is no file {PACKAGE}{inner or '*'}.{file.stem}")
            there = self.blocks[file] if file in self.blocks else self.open(file, text)
            for alias in node.names:
                if alias.name not in there:
                    raise KernelError(f"{where}: {file.name} has no {alias.name}")
                blocks[alias.name] = there[alias.name]
        for name, value in values.items():
            what = f"{path.name}: the constant {name.upper()} is {value!r}"
            raise KernelError(f"{what}; expected a finite number")
        return blocks

    def open(self, file: Path, text: str | None = None) -> dict[str, _Shared]:
        """Return a file's blocks, its own and those it imports; take its constants."""
        whole = parsed(file, text or file.read_text(encoding="utf-8"))
        blocks = self.blocks[file] = {}
        blocks |= self.imported(whole, file, {})
        functions = (node for node in whole.body if isinstance(node, ast.FunctionDef))
        blocks |= {
            node.name: _Shared(node, blocks, file.name, text is not None) for node in functions
        }
        self.constants += [n for n in whole.body if isinstance(n, ast.Assign)]
        return blocks


class _Expander(ast.NodeTransformer):
    """Replaces calls of blocks."""

    def __init__(self, blocks: dict[str, _Shared], path: Path) -> None:
        self.blocks, self.path = blocks, path

    def visit_Expr(self, node: ast.Expr) -> Any:
        call = node.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return node
        if call.func.id not in self.blocks:
            return node
        block, others = self.blocks[call.func.id].function, self.blocks[call.func.id].others
        names = [argument.arg for argument in block.args.args]
        if len(names) != len(call.args) or call.keywords:
            raise KernelError(
                f"{self.path.name}:{node.lineno}: {block.name} takes {len(names)} arguments "
                f"({', '.join(names)}), without keywords"
            )
        within = _Expander(others, self.path)
        put = _Put(dict(zip(names, call.args, strict=True)), node)
        body = block.body[1:] if ast.get_docstring(block) is not None else block.body
        written: list[ast.stmt] = []
        for statement in body:
            statements = within.visit(put.visit(copy_tree(statement)))
            written += statements if isinstance(statements, list) else [statements]
        return written


class _Put(ast.NodeTransformer):
    """Replaces parameters by arguments, and all line numbers by the call's."""

    def __init__(self, arguments: dict[str, ast.expr], call: ast.Expr) -> None:
        self.arguments, self.call = arguments, call

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Name) and node.id in self.arguments:
            copied = copy_tree(self.arguments[node.id])
            if isinstance(copied, ast.Name):
                copied.ctx = node.ctx
            return copied
        if hasattr(node, "lineno"):
            ast.copy_location(node, self.call)
        return self.generic_visit(node)


def copy_tree(node: Any) -> Any:
    """Copy a syntax tree (the parsed file is cached and must not change)."""
    return pickle.loads(pickle.dumps(node, pickle.HIGHEST_PROTOCOL))
