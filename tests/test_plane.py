"""The lowest modes of the average over planes, and high boxes in single precision."""

from __future__ import annotations

import numpy as np
import pytest
from clouds import cloud
from contract import error_over_promise

import parki
from parki.ewald.far.gauge import MODES
from parki.interchange import to_host


def plan_of(kernel, c, box, dtype, space="CPU", **options):
    array = parki.utils.get_array_module(space).asarray
    dens, norms = c.arguments(kernel)
    src = array(c.src, dtype=dtype)
    settings = parki.EwaldOptions(
        **{"periodicity": 2, "box": box, "tolerance": 1e-5, "execution_space": space} | options
    )
    norms = None if norms is None else array(norms, dtype=dtype)
    plan = parki.Plan(kernel, src, src, norms, settings)
    return plan, array(dens, dtype=dtype)


@pytest.mark.parametrize(
    ("kernel", "p2g"),
    [
        *(("stokes_dl", "base"), ("stokes_dipole", "auto")),
        pytest.param("stokes_comb", "base", marks=pytest.mark.slow),
        pytest.param("laplace_dipole", "auto", marks=pytest.mark.slow),
    ],
)
def test_modes_of_the_grid(kernel, p2g, monkeypatch):
    """In double precision the grid has the same modes, to the window's accuracy."""
    box = (1.0, 1.0, 8.0)
    c = cloud("same", 300, box)
    how = {"expert": parki.Expert(p2g_method=p2g, window_points=12), "cutoff": 0.6}
    plan, dens = plan_of(kernel, c, box, "f4", **how)
    exact, same = plan_of(kernel, c, box, "f8", **how)
    assert (
        exact.pipeline.stages.plane is None and exact.setup.mesh.padding == plan.setup.mesh.padding
    )
    seen, rows = {}, min(2, plan.task.sum.components)
    planes = exact.pipeline.stages.fgc.transforms.planes

    def watch(padded):
        planes(padded)
        seen.setdefault("modes", padded[:rows, 0, 0].copy())

    monkeypatch.setattr(exact.pipeline.stages.fgc.transforms, "planes", watch)
    exact.pipeline.stages.fgc.threads = 1  # the first modes first
    exact(same)
    plan(dens)
    found = plan.pipeline.stages.plane.apply(
        plan.pipeline.stages.sorted if plan.pipeline.stages.p2g.sorts else dens
    )
    assert found.shape == (rows, 1, MODES)
    expected = seen["modes"][:, None, 1 : MODES + 1]
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.each
@pytest.mark.parametrize("kernel", ["stokes_dl", "stokes_comb", "stokes_dipole", "laplace_dipole"])
@pytest.mark.parametrize("height", [30, 300])
def test_high_boxes_in_single_precision(kernel, height, space):
    """Without these modes: up to 1.1 and 3.6 times what the promise and rounding allow."""
    box = (1.0, 1.0, float(height))
    for density in ("random", "parallel"):
        c = cloud("same", 2000, box, density=density)
        exact, same = plan_of(kernel, c, box, "f8", tolerance=1e-9)
        plan, dens = plan_of(kernel, c, box, "f4", str(space))
        pot = to_host(plan(dens))
        assert error_over_promise(kernel, pot, exact(same), c, box, 1e-5) < 0.4


def test_low_boxes_have_none():
    box = (1.0, 1.0, 1.5)
    c = cloud("same", 100, box)
    assert plan_of("stokes_dl", c, box, "f4")[0].pipeline.stages.plane is None
    assert plan_of("stokes_dl", c, (1.0, 1.0, 3.0), "f4")[0].pipeline.stages.plane is not None
