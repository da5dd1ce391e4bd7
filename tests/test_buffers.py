"""Stages have the arrays that they declare, and predictions add up the same declarations."""

from __future__ import annotations

import numpy as np
import pytest
from test_distributed import MISSING

import parki
from parki import distributed
from parki.distributed.far import slab_grids
from parki.distributed.fgc import slab_buffers
from parki.ewald.far.buffers import (
    convolution_buffers,
    grid_buffers,
    source_buffers,
    target_buffers,
)
from parki.ewald.near.buffers import near_buffers
from parki.ewald.near.sizes import near_tile
from parki.memory import size_in_bytes

N = 2000
CASES = (
    ("stokes_sl", 3, "u", "f8"),
    ("stokes_dl", 2, "grad_u", "f8"),
    ("laplace", 1, "u", "f4"),
    ("stokes_comb", 0, ("u", "p"), "f8"),
)


def arguments(kernel, periodicity, dtype):
    src, trg, norms = np.random.default_rng(0).random((3, 3, N)).astype(dtype)
    given = norms if kernel in ("stokes_dl", "stokes_comb") else None
    return (
        kernel,
        trg[:, : N // 2].copy(),
        src,
        given,
        parki.EwaldOptions(periodicity, [1] * 3, 1e-3),
    )


def kind(array):
    return array.shape, array.dtype


@pytest.mark.parametrize(("kernel", "periodicity", "want", "dtype"), CASES)
def test_far_field(kernel, periodicity, want, dtype):
    """Grids, modes, padded planes and multipliers, of a plan."""
    plan = parki.Plan(*arguments(kernel, periodicity, dtype), want=want)
    stages, mesh, parts = plan.pipeline.stages, plan.setup.mesh, plan.memory.parts
    declared = grid_buffers(mesh.task, mesh.padding, mesh.stored, stages.grids)
    declared |= convolution_buffers(mesh.task, mesh.padding, stages.grids)
    for name, buffer in declared.items():
        assert parts[name] == size_in_bytes({name: buffer})
    assert stages.p2g.memory.nbytes == parts["grid"] + parts["modes"]
    assert stages.p2g.memory.dtype == dtype
    fgc = stages.fgc
    assert parts["padded block"] == sum(planes.nbytes for planes in fgc.padded)
    assert sum(block.multiplier.nbytes for block in fgc.whole) == parts["multiplier"]


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize(("kernel", "periodicity", "want", "dtype"), CASES)
def test_far_field_of_a_rank(kernel, periodicity, want, dtype):
    plan = distributed.Plan(*arguments(kernel, periodicity, dtype), want=want)
    far, parts = plan.pipeline.far, plan.memory.parts
    declared = slab_buffers(far.setup.task, far.mesh.padding, far.slabs, 0)
    for name, buffer in declared.items():
        assert kind(getattr(far.fgc, name)) == tuple(buffer)
    assert parts["modes"] == size_in_bytes(declared)
    grids = slab_grids(far.setup.task, far.slab.stored)
    assert kind(far.stored) == tuple(grids["field"])
    assert kind(far.p2g.grid) == tuple(grids["grid"])
    assert parts["grid"] == size_in_bytes(grids)
    convolution = far.fgc.convolution
    assert parts["padded block"] == sum(planes.nbytes for planes in convolution.padded)
    assert parts["multiplier"] == sum(block.multiplier.nbytes for block in convolution.whole)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(("kernel", "periodicity", "want", "dtype"), CASES)
def test_points(kernel, periodicity, want, dtype, same):
    """Sorted points, normals and tiles, of near and far field."""
    kernel, trg, src, norms, options = arguments(kernel, periodicity, dtype)
    plan = parki.Plan(kernel, src if same else trg, src, norms, options, want=want)
    setup, stages, counts = plan.setup, plan.pipeline.stages, (plan.n_targets, N)
    p2p, p2g, g2p, task, chosen = stages.p2p, stages.p2g, stages.g2p, setup.task, setup.parameters
    tile = near_tile(task.space, chosen.p2p, counts[0], chosen.read, task.dtype)
    declared = near_buffers(task, chosen.p2p, tile, p2p.sources.cell_grid.counts, counts, same)
    taken = sorted_arrays("src", p2p.sources)
    taken |= {} if same else sorted_arrays("trg", p2p.targets)
    taken |= {} if p2p.norms is None else {"norms": p2p.norms}
    assert declared.keys() == {*taken, "tiles"}
    assert {name: kind(array) for name, array in taken.items()} == {
        name: tuple(declared[name]) for name in taken
    }
    least, most = p2p.tiles.shape[1], declared["tiles"].shape[1]
    assert least <= most <= least + counts[0] // 2
    methods, padding, points = (chosen.p2g, chosen.g2p), setup.mesh.padding, chosen.points
    declared = source_buffers(task, chosen.p2g, padding, points, N)
    of_targets = target_buffers(task, methods, padding, points, counts[0], same, [1])
    declared |= {f"trg {name}": buffer for name, buffer in of_targets.items()}
    taken = {name.removeprefix("src "): a for name, a in sorted_arrays("src", p2g.sources).items()}
    taken |= {} if norms is None else {"norms": p2g.arguments["norms"]}
    taken |= {} if g2p.targets is p2g.sources else sorted_arrays("trg", g2p.targets)
    assert {name: kind(array) for name, array in taken.items()} == {
        name: tuple(buffer) for name, buffer in declared.items()
    }


def sorted_arrays(name, points):
    """Return the arrays of a `CellList`, which may be the parts of wider ones."""
    arrays = {
        part: getattr(points, part) for part in ("points", "cells", "order", "counts", "starts")
    }
    return {f"{name} {part}": array for part, array in arrays.items()}
