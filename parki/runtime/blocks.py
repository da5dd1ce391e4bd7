"""Blocks: statements that kernels share, written out wherever they are called.

A kernel file says ``from kernels.pairs.layers import interact`` and calls it as a statement of its
own. The call becomes the function's body with arguments for parameters; all other names are those
of the caller. Blocks may call blocks of their file, and those that the kernel's file or their own
imports; constants at the top of their files join those of the kernel. Another file of the same
folder may be chosen for the one imported. What reads kernels after this, upstream PyKokkos
included, sees plain files.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from parki.errors import KernelError

PACKAGE = "kernels."
# Python 3.11 counts the depth of a tree for all threads together: another that parses at the same
# time ends both with a SystemError.
_one_at_a_time = Lock()


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    text = path.read_text(encoding="utf-8")
    with _one_at_a_time:
        return ast.parse(text, filename=str(path))


def expand(
    tree: ast.Module, path: Path, folder: Path, chosen: Mapping[str, str] | None = None
) -> ast.Module:
    """Write out the blocks that a kernel file imports.

    Parameters
    ----------
    tree : ast.Module
        Of the file; changed in place.
    path : Path
        For messages.
    folder : Path
        That of parki's kernels, in which ``kernels.blocks`` is looked up.
    chosen : mapping of str to str, optional
        Files of the folders that it names, in place of those imported: ``{"pairs": "laplace"}``.
    """
    found = _Imports(folder, chosen or {})
    found.take(tree, path)
    for name in found.chosen.keys() - found.folders:
        value = found.chosen[name]
        raise KernelError(
            f"{path.name}: the constant {name.upper()} is {value!r}; expected a finite number"
        )
    tree.body = [node for node in tree.body if not _of_blocks(node)]
    if found.blocks:
        _Expander(found.blocks, path).visit(tree)
        # Behind the kernel's constants, which they may be made of.
        tree.body += [copy_tree(node) for nodes in found.constants.values() for node in nodes]
        ast.fix_missing_locations(tree)
    return tree


def _of_blocks(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)


class _Imports:
    """The blocks that a file imports, those that their files do, and the constants of these."""

    def __init__(self, folder: Path, chosen: Mapping[str, str]) -> None:
        self.folder, self.chosen = folder, chosen
        self.blocks: dict[str, ast.FunctionDef] = {}
        self.files: dict[str, Path] = {}  # by block
        self.constants: dict[Path, list[ast.stmt]] = {}
        self.folders: set[str] = set()

    def take(self, tree: ast.Module, path: Path) -> None:
        """Take what a file imports."""
        for node in filter(_of_blocks, tree.body):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            _, *folders, name = node.module.split(".")
            inner = ".".join(folders)
            self.folders.add(inner)
            name = self.chosen.get(inner, name)
            file = self.folder.joinpath(*folders, f"{name}.py")
            if not file.is_file():
                where = ".".join(("kernels", *folders, name))
                raise KernelError(f"{path.name}:{node.lineno}: there is no file {where}")
            whole = parsed(file)
            there = {n.name: n for n in whole.body if isinstance(n, ast.FunctionDef)}
            self.take(whole, file)
            self.constants[file] = [n for n in whole.body if isinstance(n, ast.Assign)]
            for alias in node.names:
                if alias.name not in there:
                    raise KernelError(f"{path.name}:{node.lineno}: {file.name} has no {alias.name}")
            for block in there:
                other = self.files.setdefault(block, file)
                if other != file:
                    where = f"{path.name}:{node.lineno}"
                    raise KernelError(f"{where}: {other.name} and {file.name} both have {block}")
            self.blocks |= there


class _Expander(ast.NodeTransformer):
    """Replaces calls of blocks."""

    def __init__(self, blocks: dict[str, ast.FunctionDef], path: Path) -> None:
        self.blocks, self.path = blocks, path

    def visit_Expr(self, node: ast.Expr) -> Any:
        call = node.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return node
        block = self.blocks.get(call.func.id)
        if block is None:
            return node
        names = [argument.arg for argument in block.args.args]
        if len(names) != len(call.args) or call.keywords:
            raise KernelError(
                f"{self.path.name}:{node.lineno}: {block.name} takes {len(names)} arguments "
                f"({', '.join(names)}), without keywords"
            )
        put = _Put(dict(zip(names, call.args, strict=True)), node)
        body = block.body[1:] if ast.get_docstring(block) is not None else block.body
        written: list[ast.stmt] = []
        for statement in body:
            found = self.visit(put.visit(copy_tree(statement)))
            written += found if isinstance(found, list) else [found]
        return written


class _Put(ast.NodeTransformer):
    """Puts arguments in the place of parameters, and all at the line of the call."""

    def __init__(self, given: dict[str, ast.expr], call: ast.Expr) -> None:
        self.given, self.call = given, call

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Name) and node.id in self.given:
            found = copy_tree(self.given[node.id])
            if isinstance(found, ast.Name):
                found.ctx = node.ctx
            return found
        if hasattr(node, "lineno"):
            ast.copy_location(node, self.call)
        return self.generic_visit(node)


def copy_tree(node: Any) -> Any:
    """Copy a syntax tree (the parsed file is cached and must stay as it is)."""
    if isinstance(node, ast.AST):
        copy = type(node)(**{name: copy_tree(value) for name, value in ast.iter_fields(node)})
        return ast.copy_location(copy, node)
    if isinstance(node, list):
        return [copy_tree(item) for item in node]
    return node
