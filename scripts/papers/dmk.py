"""DMK (Jiang and Greengard, 2025): sums in free space by a dual-space multilevel splitting.

docs/papers.md says what is compared.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

import numpy as np
from benchmarks.run import Run

from . import free_space
from .free_space import draw, tables

__all__ = ["draw", "measure", "missing", "tables"]

CPU_ALONE = True
LEAVES = (60, 200, 280)
# Number of the kernel, number of the output, and factor of the results.
THEIRS = {"laplace": (1, 1, 1.0), "stokes_sl": (3, 4, 2.0)}
SILENT = 6  # a log level


class Parameters(ctypes.Structure):
    """``pdmk_params`` of dmk.h."""

    _fields_ = (
        ("n_dim", ctypes.c_int),
        ("eps", ctypes.c_double),
        ("kernel", ctypes.c_int),
        ("eval_src", ctypes.c_int),
        ("eval_trg", ctypes.c_int),
        ("fparam", ctypes.c_double),
        ("use_periodic", ctypes.c_int),
        ("n_per_leaf", ctypes.c_int),
        ("log_level", ctypes.c_int),
        ("debug_flags", ctypes.c_uint32),
        ("debug_params", ctypes.c_double * 8),
    )


class Library:
    """DMK's functions for double precision."""

    def __init__(self, file: str) -> None:
        self.functions = ctypes.CDLL(file)
        pointer, number = ctypes.c_void_p, ctypes.c_int
        self.functions.pdmk_last_error_message.restype = ctypes.c_char_p
        self.functions.pdmk_tree_create.restype = pointer
        self.functions.pdmk_tree_create.argtypes = [
            *(pointer, Parameters, number, pointer, pointer, pointer, number, pointer)
        ]
        self.functions.pdmk_tree_eval.argtypes = [pointer] * 3
        self.functions.pdmk_tree_update_charges.argtypes = [pointer] * 3
        self.functions.pdmk_tree_destroy.argtypes = [pointer]

    def parameters(self, kernel: str, eps: float, leaf: int) -> Parameters:
        """Return the library's parameters of the sum."""
        found = Parameters()
        self.functions.pdmk_init_default_params(ctypes.byref(found))
        found.n_dim, found.eps, found.n_per_leaf, found.log_level = 3, eps, leaf, SILENT
        found.kernel, found.eval_src, _ = THEIRS[kernel]
        found.eval_trg = found.eval_src
        return found


class Tree:
    """A tree of sources, which are the targets; ``points`` (N, 3) and ``dens`` (N, rows)."""

    def __init__(self, library: Library, parameters: Parameters, points: Any, dens: Any) -> None:
        self.library, self.dens, self.result = library, dens, np.empty_like(dens)
        given = len(points), points.ctypes.data, dens.ctypes.data
        self.tree = library.functions.pdmk_tree_create(None, parameters, *given, None, 0, None)
        self._check(not self.tree)

    def evaluate(self) -> Any:
        """Return the sums, shape (N, rows)."""
        failed = self.library.functions.pdmk_tree_eval(self.tree, self.result.ctypes.data, None)
        self._check(failed)
        return self.result

    def again(self) -> Any:
        """Pass the densities again, and return their sums."""
        update = self.library.functions.pdmk_tree_update_charges
        self._check(update(self.tree, self.dens.ctypes.data, None))
        return self.evaluate()

    def destroy(self) -> None:
        """Free the tree."""
        self.library.functions.pdmk_tree_destroy(self.tree)

    def _check(self, failed: bool | int) -> None:
        if failed:
            raise RuntimeError(self.library.functions.pdmk_last_error_message().decode())


def missing(on_device: bool) -> str:
    """Return what is missing for the comparison, or ''."""
    return "" if "DMK_LIBRARY" in os.environ else "DMK_LIBRARY is not set"


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each kernel, cloud and number of digits."""
    library = Library(os.environ["DMK_LIBRARY"])
    kept: list[Tree] = []

    def peer(
        kernel: str, points: Any, dens: Any, eps: float
    ) -> tuple[free_space.Call, free_space.Call | None]:
        points = np.ascontiguousarray(points.T)
        dens = np.ascontiguousarray(dens.reshape(-1, len(points)).T)
        factor = THEIRS[kernel][2]

        def call(leaf: int) -> Any:
            tree = Tree(library, library.parameters(kernel, eps, leaf), points, dens)
            found = factor * tree.evaluate().T
            tree.destroy()
            return found

        def seconds(leaf: int) -> float:
            start = time.perf_counter()
            call(leaf)
            return time.perf_counter() - start

        call(LEAVES[0])
        best = min(LEAVES, key=seconds)
        while kept:
            kept.pop().destroy()
        kept.append(Tree(library, library.parameters(kernel, eps, best), points, dens))
        return lambda: call(best), lambda: factor * kept[0].again().T

    return {"rows": free_space.measure(run, peer), "library": "DMK"}
