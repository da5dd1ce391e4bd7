"""Several densities at once: the same as one after the other."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import parki
from parki import EwaldOptions, ParkiValueError
from parki.ewald.far import sizes
from parki.ewald.far.fgc import FGC
from parki.ewald.near.p2p_kernels import near_kernel
from parki.ewald.near.sizes import near_tile
from parki.ewald.sums import SUMS
from parki.runtime.host import HostObject

N = 700


def make(kernel, periodicity, to_space, rng, dtype="f8"):
    """Return a plan and what gives densities for it."""
    trg, src, norms = rng.random((3, N // 2)), rng.random((3, N)), rng.standard_normal((3, N))
    trg, src, norms = (to_space(each.astype(dtype)) for each in (trg, src, norms))
    options = EwaldOptions(periodicity, [1, 1, 1], 1e-4)
    plan = parki.Plan(kernel, trg, src, norms if SUMS[kernel].normals else None, options)
    shape = SUMS[kernel].density_shape(N)
    return plan, lambda k: to_space(rng.standard_normal((k, *shape)).astype(dtype))


def close(found, expected):
    """Whether two results agree to rounding."""
    eps = float(np.finfo(expected.dtype).eps)
    return bool(abs(found - expected).max() <= 200 * eps * abs(expected).max())


@pytest.mark.parametrize("shape", [(4, 6, N), (2, 2, 3, N)])
def test_impossible_shapes(shape, rng):
    plan, _ = make("stokes_sl", 3, np.asarray, rng)
    with pytest.raises(ParkiValueError, match=r"dens has shape .*; expected \(3, 700\)"):
        plan(np.zeros(shape))
    dens = np.zeros((3, 3, N))
    with pytest.raises(ParkiValueError, match=r"expected C-contiguous \(3, 3, .*350\)"):
        plan(dens, out=np.zeros((3, N // 2)))
    assert set(plan.timed(dens)[1]) == {"P2P", "P2G", "FGC", "G2P"}


def test_which_density_is_not_finite(rng):
    plan, densities = make("stokes_sl", 3, np.asarray, rng)
    dens = densities(3)
    dens[2, 1, 5] = np.nan
    with pytest.raises(ParkiValueError, match=r"the first is at index \(2, 1, 5\)"):
        plan(dens)


def test_one_is_checked_at_a_time(rng):
    plan, densities = make("laplace", 3, np.asarray, rng)
    with pytest.raises(ParkiValueError, match="check takes one density at a time"):
        plan.check(densities(2))


@pytest.mark.each
@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
@pytest.mark.parametrize("kernel", ["stokes_comb", "laplace"])
def test_grids_side_by_side(kernel, periodicity, space, to_space, rng):
    """What devices do with their grids, on every space."""
    plan, densities = make(kernel, periodicity, to_space, rng)
    compare_side_by_side(plan, densities(3), space.array_module)


def test_grids_that_need_smaller_blocks(rng, monkeypatch):
    """A device has memory for fewer planes of several grids than of one; a host as a device."""
    for module in ("buffers", "convolution"):
        monkeypatch.setattr(f"parki.ewald.far.{module}.by_many", lambda task: False)
    plan, densities = make("laplace", 1, np.asarray, rng)
    block = max(plan.pipeline.stages.fgc.blocks, key=lambda block: block.modes)
    most = 3 * 16 * block.modes * 2 // 3  # bytes of two thirds of the planes
    monkeypatch.setattr(sizes, "CPU", sizes.CPU._replace(block=most))
    compare_side_by_side(plan, densities(3), np)


def compare_side_by_side(plan, dens, xp):
    """Compare three densities on grids side by side with each alone."""
    pipeline, mesh, sets = plan.pipeline.stages, plan.setup.mesh, 3
    dens = dens.reshape(sets, -1, N)
    x, y, z = mesh.stored
    before, size = FGC.scratch(mesh, sets)
    shape = (mesh.task.sum.components, x, sets * y, z)
    memory = xp.zeros(before + max(size, int(np.prod(shape))))
    grid = memory[before : before + int(np.prod(shape))].reshape(shape)
    fgc = FGC(mesh, plan.setup.split, memory, sets, pipeline.fgc)
    for place, one in enumerate(dens):
        pipeline.p2g.apply(one, pipeline.sorted, grid, place)
    field = fgc.apply(grid)
    for place, one in enumerate(dens):
        found, expected = xp.zeros((2, 3, N // 2))
        pipeline.g2p.apply(field, {"u": found[: mesh.task.sum.results]}, place)
        alone = pipeline.fgc.apply(pipeline.p2g.apply(one, pipeline.sorted))
        pipeline.g2p.apply(alone, {"u": expected[: mesh.task.sum.results]})
        assert close(found, expected)


@pytest.mark.parametrize(("k", "expected"), [(1, [1]), (3, [4]), (6, [4, 2]), (7, [4, 4])])
def test_how_many_go_at_once(k, expected, rng):
    """Zeros take the place of the last density of four."""
    plan, densities = make("stokes_sl", 3, np.asarray, rng)
    launch, launched = plan.pipeline.stages.p2p.launches["u"], []

    def counted(many, arguments):
        launched.append(many)
        launch(many, arguments)

    plan(np.full((4, *densities(1).shape[1:]), 1e300))  # what is left of it is not summed
    plan.pipeline.stages.p2p.launches["u"] = counted
    dens = densities(k)
    found = plan(dens)
    assert launched == expected
    for each, alone in zip(found, dens, strict=True):
        assert close(each, plan(alone))


def staged_kernel(kernel, many, dtype, rng):
    """Return P2P's kernel of a CPU for ``many`` densities at a time, and its text."""
    plan, _ = make(kernel, 3, np.asarray, rng, dtype=dtype)
    task = plan.task
    tile = near_tile(task.space, "staged", N, 0.0, task.dtype)
    found = near_kernel(plan.setup.near, tile, many=many)
    return found, found.translated.text


@pytest.mark.parametrize(
    ("kernel", "many", "dtype"),
    [
        ("stokes_sl", 4, "f8"),
        ("stokes_comb", 4, "f4"),
        ("stokes_dipole", 2, "f8"),
        ("laplace", 1, "f4"),
    ],
)
def test_what_vectors_need(kernel, many, dtype, rng):
    """Sums within a branch stay in memory, and rows are copied a vector at a time."""
    _, text = staged_kernel(kernel, many, dtype, rng)
    pairs = text[text.index("PK_SIMD(pk_u_0") :]
    sums = pairs[: pairs.index("u[0] = pk_u_0")]
    assert "if ((rr >= " in sums
    assert "if ((rr < " not in sums
    filling = text[text.index("auto fill = ") : text.index(", fill);")]
    lanes = re.findall(r"(\w+)\nfor \(int lane", filling)
    assert set(lanes) == {"PK_ELEMENTWISE"}


def test_bodies_are_inlined(rng, tmp_path):
    """Compilers leave large ones as functions, which read all variables from memory."""
    found, _ = staged_kernel("stokes_dipole", 4, "f8", rng)
    host = HostObject(found.workunit.name, found._object.source)
    if host.shipped:
        pytest.skip("the kernel came compiled with parki")
    source, assembly = tmp_path / "kernel.cpp", tmp_path / "kernel.s"
    source.write_text(host.source)
    flags = [flag for flag in host.flags if flag != "-shared"]
    command = [*host.compiler.command, *flags, "-S", str(source), "-o", str(assembly)]
    subprocess.run(command, check=True)
    functions = re.findall(r"^(\w+):", assembly.read_text(), re.MULTILINE)
    assert any("pk_workunit" in name or "parki_entry" in name for name in functions)
    assert not [name for name in functions if name.endswith("clEi")]  # operator() of a body
