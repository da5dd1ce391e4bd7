"""Stages have the arrays that they declare, and predictions add up the same declarations."""

from __future__ import annotations

import numpy as np
import pytest
from test_distributed import MISSING

import parki
from parki import distributed
from parki.distributed.far import slab_grids
from parki.distributed.fgc import slab_buffers
from parki.ewald.far.buffers import convolution_buffers, grid_buffers
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
        assert parts[name] == size_in_bytes([buffer])
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
    assert parts["modes"] == size_in_bytes(declared.values())
    grids = slab_grids(far.setup.task, far.slab.stored)
    assert kind(far.stored) == tuple(grids["field"])
    assert kind(far.p2g.grid) == tuple(grids["grid"])
    assert parts["grid"] == size_in_bytes(grids.values())
    convolution = far.fgc.convolution
    assert parts["padded block"] == sum(planes.nbytes for planes in convolution.padded)
    assert parts["multiplier"] == sum(block.multiplier.nbytes for block in convolution.whole)
