"""Derivatives are those of the exact results, in both modes: by points, densities and normals."""

from __future__ import annotations

import numpy as np
import pytest
from faces import law
from frameworks import difference

STEP = 2e-4


def allowed(face, kernel):
    """Return the relative error: blobs end at some pairs, across which differences are worse."""
    return face.differences * (3 if "epsilon" in kernel else 1)


@law("derivatives", joined=False)
@pytest.mark.parametrize("same", [False, True], ids=["apart", "same"])
def test_derivatives(face, kernel, periodicity, same):
    given = face.given(kernel, periodicity, tolerance=1e-8, same=same)
    made, rng = face.make(given), np.random.default_rng(1)
    inputs = face.inputs(given)
    moves = {name: rng.standard_normal(array.shape) for name, array in inputs.items()}
    if "trg" in moves:  # points that coincide stay together: such pairs are left out
        together = slice(None if same else 4)
        moves["trg"][:, together] = moves["src"][:, together]
    none = {name: 0 * move for name, move in moves.items()}
    slope = difference(lambda at: face.exact(face.changed(given, at)), none, moves, STEP)
    values, size = rng.standard_normal(slope.shape), np.linalg.norm(slope)
    pushed, pulled = face.push(made, given, moves), face.pull(made, given, values)
    assert np.linalg.norm(pushed - slope) <= allowed(face, kernel) * size
    assert {name: array.shape for name, array in pulled.items()} == {
        name: array.shape for name, array in inputs.items()
    }
    product = sum((pulled[name] * move).sum() for name, move in moves.items())
    assert abs(product - (values * slope).sum()) <= allowed(face, kernel) * size * np.linalg.norm(
        values
    )


@law("derivatives", joined=False)
def test_several_densities(face, kernel, periodicity, space, to_space, to_host):
    """In every space: derivatives by points are summed over densities, others are of each alone."""
    one, two = (face.given(kernel, periodicity, seed, tolerance=1e-8) for seed in range(2))
    alone = [one, one._replace(dens=two.dens)]
    several, rng = one._replace(dens=np.stack([one.dens, two.dens])), np.random.default_rng(1)
    moves = {n: rng.standard_normal(each.shape) for n, each in face.inputs(several).items()}
    of_each = {n for n, move in moves.items() if move.ndim > face.inputs(one)[n].ndim}
    elsewhere = "spaces" not in face.lacks
    send = to_space if elsewhere else np.asarray
    there = several.on(send, execution_space=space.name) if elsewhere else several
    made = face.make(there)
    pushed = to_host(face.push(made, there, {n: send(move) for n, move in moves.items()}))
    values, parts = rng.standard_normal(pushed.shape), []
    for n, given in enumerate(alone):
        made = face.make(given)
        change = face.push(made, given, {k: m[n] if k in of_each else m for k, m in moves.items()})
        assert np.linalg.norm(pushed[n] - change) <= allowed(face, kernel) * np.linalg.norm(change)
        parts.append(face.pull(made, given, values[n]))
    for name, found in face.pull(face.make(there), there, send(values)).items():
        each = [part[name] for part in parts]
        right = np.stack(each) if name in of_each else sum(each)
        apart = np.linalg.norm(to_host(found) - right)
        assert apart <= allowed(face, kernel) * np.linalg.norm(right), name
