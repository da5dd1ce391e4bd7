"""Derivatives are those of the exact results, in both modes: by points, densities and normals."""

from __future__ import annotations

import numpy as np
import pytest
from faces import law
from frameworks import difference

STEP = 2e-4


@law("derivatives", joined=False)
@pytest.mark.parametrize("same", [False, True], ids=["apart", "same"])
def test_derivatives(face, kernel, periodicity, same, space, to_space, to_host):
    """In every space; of several densities, those by points are summed, others are of each."""
    how = {"tolerance": 1e-8, "cutoff": None, "same": same}
    one, two = (face.given(kernel, periodicity, seed, **how) for seed in range(2))
    several, rng = one._replace(dens=np.stack([one.dens, two.dens])), np.random.default_rng(1)
    elsewhere = "spaces" not in face.lacks
    send = to_space if elsewhere else np.asarray

    def derived(given, moves, values):
        """Return the change of the results, and the derivatives, on the host."""
        there = given.on(send, execution_space=space.name) if elsewhere else given
        pushed = face.push(made, there, {name: send(move) for name, move in moves.items()})
        pulled = face.pull(made, there, send(values))
        return to_host(pushed), {name: to_host(array) for name, array in pulled.items()}

    made = face.make(one.on(send, execution_space=space.name) if elsewhere else one)
    inputs = face.inputs(one)
    moves = {n: rng.standard_normal(each.shape) for n, each in face.inputs(several).items()}
    of_each = {n for n, move in moves.items() if move.ndim > inputs[n].ndim}
    if "trg" in moves:  # points that coincide stay together: such pairs are left out
        together = slice(None if same else 4)
        moves["trg"][:, together] = moves["src"][:, together]
    alone = [{k: m[n] if k in of_each else m for k, m in moves.items()} for n in range(2)]
    none = {name: 0 * move for name, move in alone[0].items()}

    def differ(step):
        return difference(lambda at: face.exact(face.changed(one, at)), none, alone[0], step)

    slope = differ(STEP)
    values, size = rng.standard_normal((2, *slope.shape)), np.linalg.norm(slope)
    allowed = face.differences
    if "epsilon" in kernel:
        # The flow jumps where a pair's distance passes a blob's end, so that differences across it
        # grow with a smaller step: such results are not compared.
        smooth = np.abs(differ(STEP / 2) - slope) * slope.size**0.5 < allowed * size
        assert smooth.mean() > 0.9
        slope, values = slope * smooth, values * smooth
    else:
        smooth = 1.0
    pushed, pulled = derived(several, moves, values)
    parts = [derived(one._replace(dens=several.dens[n]), alone[n], values[n]) for n in range(2)]
    assert np.linalg.norm(parts[0][0] * smooth - slope) <= allowed * size
    assert {n: a.shape for n, a in parts[0][1].items()} == {n: a.shape for n, a in inputs.items()}
    product = sum((parts[0][1][name] * move).sum() for name, move in alone[0].items())
    expected, length = (values[0] * slope).sum(), np.linalg.norm(values[0])
    assert abs(product - expected) <= allowed * size * length
    for found, (change, _) in zip(pushed, parts, strict=True):
        assert np.linalg.norm(found - change) <= allowed * np.linalg.norm(change)
    for name, found in pulled.items():
        each = [part[name] for _, part in parts]
        right = np.stack(each) if name in of_each else sum(each)
        assert np.linalg.norm(found - right) <= allowed * np.linalg.norm(right), name
