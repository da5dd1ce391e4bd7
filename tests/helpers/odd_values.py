"""Odd values, changes of valid arrays, and options that most calls leave out: for random calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from parki import Expert

ODD = (
    *(None, True, False, np.True_, 0, -1, 1, 2, 7, 3.5, -0.0, 5e-324, 1e-300, 1e-30, 1e-9),
    *(1e9, 1e30, 1e300, math.inf, -math.inf, math.nan, 10**400, -(10**400), 1j, np.float32(0.5)),
    *(np.int8(3), np.array(0.5), np.array([0.5]), np.array(np.nan), Fraction(1, 3), Decimal("0.5")),
    *("", "x", "u", "0.5", b"1", "cpu", "no-slip", [], (), {}, {1}, {"dens": None}, object(), int),
    *(math, np.dtype, slice(None), ..., NotImplemented, iter([1]), range(3), np.int64(2**62)),
    *([1, 2], [1, 2, 3], [[1], [2, 3]], [0, 0, 0], (1, 1, 1), ("u", "u"), [True, False, True]),
    *([None] * 3, [math.nan] * 3, [1e300] * 3, [1e-300] * 3, ["1"] * 3, [10**400] * 3),
    *(np.ones(3), np.eye(3), np.zeros((3, 3)), np.ones((3, 4)), np.ones((2, 3, 4))),
    *(np.array([]), np.zeros((3, 0)), np.zeros((0, 0)), np.ma.ones((3, 4)), np.ones(3, "M8[s]")),
    *(np.array(["a"]), np.array([object()])),
)
DTYPES = ("f2", "f4", "f8", "g", "i4", "?", "c16", "O", "U")
FACTORS = (0, -1, 1e-300, 1e-30, 1e-6, 1e6, 1e30, 1e300)
Change = Callable[[Any], Any]
CHANGES: dict[str, Change] = {
    "transposed": lambda a: a.T,
    "short": lambda a: a[..., :-1],
    "flat": lambda a: a.reshape(-1),
    "several": lambda a: np.stack([a, a]),
    "one of several": lambda a: a[None],
    "empty": lambda a: a[..., :0],
    "no rows": lambda a: a[:0],
    "list": lambda a: a.tolist(),
    "ragged": lambda a: [*a.tolist(), [1.0]],
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "backwards": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    "by columns": np.asfortranarray,
    "swapped bytes": lambda a: a.astype(a.dtype.newbyteorder()),
    "memory": lambda a: memoryview(np.ascontiguousarray(a)),
    "equal": lambda a: 0 * a + a.reshape(-1)[:1].sum(),
    **{f"as {t}": lambda a, t=t: (a if t[0] == "c" else a.real).astype(t) for t in DTYPES},
    **{f"times {s:g}": lambda a, s=s: a * a.dtype.type(s) for s in FACTORS},
    **{f"one {x}": lambda a, x=x: _with(a, x) for x in (math.nan, math.inf, 1e30, -1.0)},
}
OTHERS: dict[str, tuple[Any, ...]] = {
    "densities": ("random", "any"),
    "precision": ("full", "mixed"),
    "execution_space": ("CPU", "Serial"),
    "cutoff": (0.2, 0.4, 3.0, 1e-3),
    "dl_mean": ("zero", "flux"),
    "exclude_image": ("nearest", "given"),
    "wall": ("no-slip", ("no-slip", "no-slip"), ("no-slip", None), ("metal", "metal"), 0.5),
    "mean_flow": ("no-gradient", ("no-gradient", "no-flux")),
    "voltage": (0.0, -2.5),
    "deterministic": (True, False),
    "expert": (
        *(Expert(sources_per_cell=count) for count in (5.0, 50, 1e-3, 1e6)),
        *(Expert(window_points=points) for points in (4, 8)),
        Expert(split="prolate"),
        Expert(split="hasimoto", p2p_method="GM-1D"),
        Expert(split="hasimoto", radial="erfc"),
        Expert(p2p_method="tile", p2g_method="tile", g2p_method="tile"),
        Expert(p2g_method="base", g2p_method="target", executor="embedded"),
    ),
}


def changed(array: Any, change: str) -> Any:
    """Return an array after one of the `CHANGES`; None if it is not one of such an array."""
    try:
        with np.errstate(all="ignore"):
            return CHANGES[change](array)
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError):
        return None


def _with(array: Any, value: float) -> Any:
    """Return a copy whose middle number is another."""
    found = array.copy()
    found.reshape(-1)[found.size // 2 : found.size // 2 + 1] = value
    return found
