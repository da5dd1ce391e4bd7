"""A sum is its record: nothing else in parki knows kernels by their names."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import parki
from parki.ewald.points import RESULTS, TENSOR
from parki.ewald.sums import SUMS, TERMS
from parki.runtime.specialise import kernel_directory

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


def test_nobody_asks_which_sum_it_is():
    """A sum is asked for its values, and never whether it is one of them."""
    which = {"single", "double", "laplace", "rotlet", "dipole", "harmonic"}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in which
    ]
    assert not found


def test_kernels_know_sums_by_their_files_alone():
    """A pair function is a file of kernels/pairs, a tensor structure one of kernels/symbols."""
    folder = kernel_directory()
    of_sums = {"pairs": {each.pair.file for each in SUMS.examples()}}
    of_sums["symbols"] = {each.symbol.structure for each in SUMS.examples()}
    for name, files in of_sums.items():
        assert files == {path.stem for path in (folder / name).glob("*.py")}
    which = {"SINGLE", "DOUBLE", "LAPLACE", "ROTLET", "DIPOLE", "STOKES"}
    found = [
        f"{path.relative_to(folder)}:{node.lineno}: {node.id}"
        for path in folder.rglob("*.py")
        if path.parent.name not in of_sums
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id in which
    ]
    assert not found


@pytest.mark.parametrize("kernel", SUMS.values(), ids=lambda each: each.name)
def test_records_agree_with_the_reference(kernel):
    """Rows of densities and results, normals, and the quantities that there are."""
    rng = np.random.default_rng(0)
    dens = rng.random(kernel.density_shape(5))
    norms = rng.random((3, 5)) if kernel.normals else None
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
                kernel.pair.power == 2 or "dl" in term.name
            )
    assert kernel.components == (4 if kernel.normals else kernel.results)
    assert kernel.pair.power == min(source.decay - source.normal for source in kernel.sources)
