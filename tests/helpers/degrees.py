"""Few degrees of near polynomials and few widths of windows, so that sums share kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parki.ewald.choice.problem import Problem
from parki.ewald.options import EwaldOptions

# The degrees chosen are mostly below 24 and at most 48. By multiples of 8 the tests of derivatives,
# of transposes and of `want` compiled half as many kernels again; by 48 there would be a twentieth
# fewer, but wheels do not have all kernels of this degree (`tests/test_shipped.py`).
STEP = 24
# Points of windows to choose from; each is a kernel of P2G, and some of G2P, for each kind of sum.
# The last of each precision are among them, so that every tolerance is reached.
WIDTHS = (4, 8, 12, 18)


ALL = Problem.polynomial_degree, EwaldOptions.windows


def all_degrees(patch: Callable[[type, str, Any], None]) -> None:
    """Take the degrees and the windows that parki chooses."""
    patch(Problem, "polynomial_degree", ALL[0])
    patch(EwaldOptions, "windows", ALL[1])


def few_degrees(patch: Callable[[type, str, Any], None] = setattr) -> None:
    """Round degrees up, and choose from few windows, in every sum from now on."""
    degree, windows = ALL

    def few_windows(self: EwaldOptions, dtype: Any) -> tuple[int, ...]:
        found = windows(self, dtype)
        return tuple(p for p in found if p in WIDTHS) or found  # or the one asked for

    patch(Problem, "polynomial_degree", lambda *given: -(-degree(*given) // STEP) * STEP)
    patch(EwaldOptions, "windows", few_windows)
