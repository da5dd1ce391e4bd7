"""Blocks: statements common to several kernels, inserted wherever they are called.

A kernel file says ``from kernels.blocks.pair import interact`` and calls it as a statement. The
call is replaced by the function's body, with arguments for parameters; all other names refer to
the caller's variables. Blocks may call blocks that their own file or the kernel's imports. Later
steps, upstream PyKokkos included, read plain files.
"""

from __future__ import annotations

import ast
from pathlib import Path
from threading import Lock
from typing import Any

from parki.errors import KernelError

PACKAGE = "kernels."
# Python 3.11 counts the depth of a tree over all threads, so that two threads parsing at the same
# time both end with a SystemError.
_one_at_a_time = Lock()


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    text = path.read_text(encoding="utf-8")
    with _one_at_a_time:
        return ast.parse(text, filename=str(path))


def expand(tree: ast.Module, path: Path, folder: Path) -> ast.Module:
    """Insert the blocks that a kernel file imports.

    Parameters
    ----------
    tree : ast.Module
        Syntax tree of the file; changed in place.
    path : Path
        Path of the file, for messages.
    folder : Path
        Folder of parki's kernels, in which ``kernels.blocks`` is looked up.
    """
    blocks = _imported(tree, path, folder)
    tree.body = [node for node in tree.body if not _of_blocks(node)]
    if blocks:
        _Expander(blocks, path).visit(tree)
        ast.fix_missing_locations(tree)
    return tree


def _of_blocks(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)


def _imported(tree: ast.Module, path: Path, folder: Path) -> dict[str, ast.FunctionDef]:
    """Return the blocks that a file imports, directly or through blocks."""
    blocks: dict[str, ast.FunctionDef] = {}
    for node in filter(_of_blocks, tree.body):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        file = folder.joinpath(*node.module.split(".")[1:]).with_suffix(".py")
        if not file.is_file():
            raise KernelError(f"{path.name}:{node.lineno}: there is no file {node.module}")
        whole = parsed(file)
        there = {n.name: n for n in whole.body if isinstance(n, ast.FunctionDef)}
        blocks.update(_imported(whole, file, folder))
        for alias in node.names:
            if alias.name not in there:
                raise KernelError(f"{path.name}:{node.lineno}: {file.name} has no {alias.name}")
            blocks[alias.name] = there[alias.name]
    return blocks


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
    """Replaces parameters by arguments, and all line numbers by the call's."""

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
    """Copy a syntax tree (the parsed file is cached and must not change)."""
    if isinstance(node, ast.AST):
        copy = type(node)(**{name: copy_tree(value) for name, value in ast.iter_fields(node)})
        return ast.copy_location(copy, node)
    if isinstance(node, list):
        return [copy_tree(item) for item in node]
    return node
