"""Few degrees of near polynomials, so that sums of tests share kernels."""

from __future__ import annotations

from collections.abc import Callable

from parki.ewald.choice.problem import Problem

# The degrees chosen are mostly below 24 and at most 48. By multiples of 8 the tests of derivatives,
# of transposes and of `want` compiled half as many kernels again.
STEP = 24


def few_degrees() -> Callable[..., int]:
    """Return what rounds the degree of a problem up, in place of ``polynomial_degree``."""
    usual = Problem.polynomial_degree
    return lambda self, *given: -(-usual(self, *given) // STEP) * STEP
