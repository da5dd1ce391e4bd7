"""A sum is its record: nothing else in parki knows kernels by their names."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import parki
from parki.ewald.points import RESULTS, TENSOR
from parki.ewald.sums import SUMS, TERMS

ROOT = Path(parki.__file__).parent
# The reference shares nothing with the solver.
SOURCES = [p for p in ROOT.rglob("*.py") if p.parent.name not in ("reference", "sums")]


def test_nobody_compares_names_of_kernels():
    assert len(SOURCES) > 100
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                texts = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                if texts & (set(SUMS) | set(TERMS)):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found


@pytest.mark.parametrize("kernel", SUMS.values(), ids=lambda each: each.name)
def test_records_agree_with_the_reference(kernel):
    """Rows of densities and results, normals, and the quantities that there are."""
    rng = np.random.default_rng(0)
    dens = rng.random(kernel.density_shape(5))
    norms = rng.random((3, 5)) if kernel.double else None
    points, want = rng.random((3, 5)), tuple(n for n in kernel.terms if n in RESULTS)
    found = parki.reference.direct_sum(
        kernel.name, points, points, dens, norms, periodicity=0, want=want
    )
    fields = dict(zip(want, found, strict=True))
    assert fields["u"].size == kernel.results * 5
    assert ("p" in kernel.terms) == (kernel.results == 3)
    for name, terms in kernel.terms.items():
        if name == TENSOR:
            assert [term.power for term in terms] == [3]
            continue
        assert fields[name].any() == bool(terms)
        for term in terms:
            assert term.power == (1 if name == "u" else 2) + (
                kernel.decay == 2 or "dl" in term.name
            )
    assert kernel.components == (4 if kernel.double else kernel.results)
    assert kernel.single_rows + 3 * kernel.double == kernel.rows
