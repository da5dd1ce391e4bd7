"""Any axes may be periodic: all sums, and what is made of them, turn with the axes.

Results equal those of the same points with their axes renamed by hand, where the periodic ones come
first. Three axes renamed in a circle stay right-handed, so that torques and rotations keep signs.
"""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from clouds import cloud
from contract import rms
from few import FEW
from sphere_reference import mobility

import parki
from parki.cli import main as cli
from parki.ewald.choice import reuse
from parki.ewald.geometry.axes import AxisPermutation
from parki.ewald.sums import SUMS
from parki.libmobility import Solver

N, BOX, TOLERANCE = 60, (1.5, 1.0, 0.7), 1e-5
EVERY = [*itertools.product((False, True), repeat=3)]
# The user's axes in the order in which the periodic ones are the first, by hand.
TURNED = {
    (False, True, False): [1, 2, 0],
    (False, False, True): [2, 0, 1],
    (False, True, True): [1, 2, 0],
    (True, False, True): [2, 0, 1],
}
turned = pytest.mark.parametrize("periodic", TURNED)
VALUE, TYPE = parki.ParkiValueError, parki.ParkiTypeError


def axis(values, axes):
    """Return numbers (N,), vectors (..., 3, N), pairs (6, N) or tensors (3, 3, N) by other axes."""
    if values.ndim == 1:
        return values
    if values.shape[:2] == (3, 3):
        return np.ascontiguousarray(values[axes][:, axes])
    return np.concatenate([part[axes] for part in np.split(values, len(values) // 3)])


def box_of(periodic, free=True):
    """Return the edges, or None for free axes."""
    return [b if free or flag else None for b, flag in zip(BOX, periodic, strict=True)]


def given(kernel, dtype="f8", name="partly"):
    """Return targets, sources, density and, for kernels that have them, normals."""
    c = cloud(name, N, BOX, dtype)
    dens, norms = c.arguments(kernel)
    return c.trg, c.src, dens, *(() if norms is None else (norms,))


def by_hand(periodic, *arrays):
    """Return arrays, and the options of a sum, by the axes of which the periodic ones come first.

    One array that was given twice stays one.
    """
    axes, found = TURNED[periodic], {}
    for each in arrays:
        found.setdefault(id(each), axis(each, axes))
    return [found[id(each)] for each in arrays]


def options_by_hand(options):
    box = [options.box[each] for each in TURNED[options.periodicity]]
    return parki.EwaldOptions(sum(options.periodicity), box, options.tolerance)


def wants(kernel):
    has = ("u", "p", "grad_u", "stress") if SUMS[kernel].terms.get("p") is not None else ()
    return has or ("u", "grad_u")


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize("periodic", EVERY)
def test_spellings(periodic):
    options = parki.EwaldOptions(periodic, [1, 1, 1])
    count = sum(periodic)
    first = all(periodic[:count])
    assert options.periodicity == (count if first else periodic)
    assert options.periodic == periodic
    assert options.axes == ((0, 1, 2) if first else tuple(TURNED[periodic]))
    ones = [int(each) for each in periodic]
    for same in (list(periodic), np.array(periodic), ones, np.array(ones), (*map(np.bool_, ones),)):
        assert parki.EwaldOptions(same, [1, 1, 1]) == options
    assert hash(parki.EwaldOptions(ones, [1, 1, 1])) == hash(options)
    assert json.loads(json.dumps(options.periodicity)) == (count if first else list(periodic))


@pytest.mark.parametrize(
    ("error", "message", "periodicity", "box"),
    [
        (TYPE, r"periodicity is True \(bool\)", True, [1, 1, 1]),
        (TYPE, r"a truth value for each axis, such as \(False, True, True\)", "ppf", [1, 1, 1]),
        (TYPE, "a truth value for each axis", (0.0, 1.0, 1.0), [1, 1, 1]),
        (TYPE, "a truth value for each axis", np.ones((3, 3)), [1, 1, 1]),
        (VALUE, r"periodicity is \(True, False\); expected 3 truth values", (True, False), 3 * [1]),
        (VALUE, r"periodicity is \(0, 2, 1\); expected 3 truth values", (0, 2, 1), [1, 1, 1]),
        (VALUE, "axis 2 is periodic and needs its length", (0, 0, 1), [None, 1, None]),
        (VALUE, r"such as \[None, 1, 1\] \(None for a free axis", (0, 1, 1), None),
        (TYPE, r"box is array\(0.5\); expected 3 edge lengths", 2, np.array(0.5)),
    ],
)
def test_refusals(error, message, periodicity, box):
    with pytest.raises(error, match=message):
        parki.EwaldOptions(periodicity, box)


@pytest.mark.parametrize("rows", [1, 3, 6, 9, 10])
@pytest.mark.parametrize("axes", [[0, 1, 2], [1, 2, 0], [2, 0, 1], [1, 0, 2], [0, 2, 1]])
def test_an_order_goes_back(axes, rows, rng):
    values = rng.standard_normal((2, rows, 5))
    out, order = np.empty_like(values), AxisPermutation(axes)
    order.to_user(order.to_solver(values), out)
    np.testing.assert_array_equal(out, values)
    assert order.to_solver(values).flags.c_contiguous


# ---------------------------------------------------------------------- sums


@pytest.mark.each
@turned
@pytest.mark.parametrize("kernel", FEW)
def test_sums_turn_with_the_axes(kernel, periodic, rng):
    """All results, bit for bit, and with free edges left out; and the transposes of some."""
    arrays, back = given(kernel), tuple(n for n in ("u", "grad_u") if n in SUMS[kernel].adjoints)
    trg, src, dens, *norms = arrays
    other, sources, density, *normals = by_hand(periodic, *arrays)
    for free, want in ((True, wants(kernel)), (False, back)):
        options = parki.EwaldOptions(periodic, box_of(periodic, free), TOLERANCE)
        hand = options_by_hand(options)
        plan = parki.Plan(kernel, trg, src, *norms, options, want=want)
        exact = parki.Plan(kernel, other, sources, *normals, hand, want=want)
        results = plan(dens)
        for name, ours, theirs in zip(want, results, exact(density), strict=True):
            np.testing.assert_array_equal(axis(ours, TURNED[periodic]), theirs, err_msg=name)
    values = [rng.standard_normal(each.shape) for each in results]
    # The gradient of a potential is a vector; of three rows, as is the density of a layer.
    ours, theirs = plan.adjoint(values), exact.adjoint(by_hand(periodic, *values))
    np.testing.assert_array_equal(axis(ours, TURNED[periodic]), theirs)


# ---------------------------------------------------------------------- what is made of sums


@pytest.mark.each
@turned
def test_spheres_with_torques(periodic, rng):
    radii = np.where(np.arange(20) < 12, 0.05, 0.08)
    points = rng.random((3, 20)) * np.array(BOX)[:, None]
    forces, torques = rng.standard_normal((2, 3, 20))
    box = box_of(periodic, free=False)
    spheres = parki.Spheres(points, radii, periodicity=periodic, box=box, tolerance=1e-9)
    turned_arrays = by_hand(periodic, points, forces, torques)
    edges = np.array(BOX)[TURNED[periodic]]
    theirs = mobility(turned_arrays[0], radii, *turned_arrays[1:], edges, sum(periodic))
    for one, two in zip(spheres.velocities(forces, torques), theirs, strict=True):
        np.testing.assert_allclose(
            8 * np.pi * axis(one, TURNED[periodic]), two, rtol=0, atol=1e-6 * rms(two)
        )
    with pytest.raises(VALUE, match="noise with periodicity="):
        spheres.noise(rng)


@turned
def test_pairs_in_reach(periodic, rng):
    points, radius = rng.random((3, 40)) * np.array(BOX)[:, None], 0.34
    pairs = parki.near_pairs(points, points, radius, periodicity=periodic, box=BOX)
    r = points[:, :, None] - points[:, None]
    for each, (length, repeats) in enumerate(zip(BOX, periodic, strict=True)):
        r[each] -= repeats * length * np.rint(r[each] / length)
    found = np.zeros((40, 40), dtype=int)
    np.add.at(found, (np.repeat(np.arange(40), np.diff(pairs.indptr)), pairs.indices), 1)
    close = ((r**2).sum(axis=0) < radius**2) & ~np.eye(40, dtype=bool)
    np.testing.assert_array_equal(found, close)
    np.testing.assert_allclose(pairs.distances, np.linalg.norm(pairs.displacements, axis=0))


def test_libmobility_takes_any_axes(rng):
    positions, forces = rng.random((2, 20, 3))
    solver = Solver("open", "periodic", "open")
    solver.setParameters(Ly=1.0)
    solver.initialize(viscosity=1.0, hydrodynamicRadius=0.02)
    solver.setPositions(positions)
    how = {"periodicity": (False, True, False), "box": [None, 1, None], "tolerance": 1e-4}
    exact = parki.Spheres(positions.T, 0.02, **how).velocities(forces.T)
    np.testing.assert_array_equal(solver.Mdot(forces)[0].T, exact)
    with pytest.raises(VALUE, match="Ly is None, but axis Y is periodic"):
        Solver("open", "periodic", "open").setParameters(Lx=1.0)


def test_the_command_line(tmp_path, capsys):
    trg, src, dens = given("stokes_sl")
    np.savez(tmp_path / "in.npz", src=src, trg=trg, dens=dens)
    words = ["eval", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]
    words += ["--kernel", "stokes_sl", "--space", "Serial", "--periodicity"]
    assert cli.main([*words, "0,1,1", "--box", "none", "1", "0.7"]) == 0
    options = parki.EwaldOptions((False, True, True), [None, 1, 0.7], execution_space="Serial")
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["u"], parki.stokes_sl(trg, src, dens, options))
        assert json.loads(str(found["options"]))["periodicity"] == [False, True, True]
    for text in ("0,1", "0,1,2", "4", "x"):
        assert cli.main([*words, text]) == 2
        assert f"{text!r} is no periodicity; expected 0 to 3" in capsys.readouterr().err
    assert cli.main([*words, "0,1,1"]) == 2
    assert "box is missing, but periodicity is (False, True, True)" in capsys.readouterr().err


# ---------------------------------------------------------------------- what names axes


def moved(points, *by):
    return points + np.array(by, dtype=points.dtype)[:, None]


def test_messages_name_the_axes_of_the_caller():
    trg, src, dens = given("stokes_sl")
    how = {"periodicity": (0, 1, 1), "box": BOX, "tolerance": TOLERANCE}
    with pytest.raises(VALUE, match="along axis 0, which is free, but the box there is"):
        parki.stokes_sl(moved(trg, 2, 0, 0), src, dens, **how)
    with pytest.raises(VALUE, match="along axis 2, more than 1e6 boxes away"):
        parki.stokes_sl(moved(trg, 0, 0, 2e6), src, dens, **how)
    parki.stokes_sl(moved(trg, 0, 3, -1), src, dens, **how)  # wrapped
    with pytest.raises(VALUE, match=r"the points span 1.\d+ x 5e-05 x 0.\d+"):
        parki.stokes_sl(trg, src, dens, periodicity=(0, 1, 0), box=[None, 5e-5, None])


def test_warnings_name_the_axes_of_the_caller(monkeypatch, rng):
    trg, src, dens = given("stokes_sl", "f4")
    how = {"periodicity": (0, 0, 1), "box": BOX, "tolerance": 1e-3}
    with pytest.warns(parki.ImageWarning, match="a period or more apart along axis 2"):
        parki.stokes_sl(moved(trg, 0, 0, 0.7), src, dens, **how)
    monkeypatch.setattr(reuse, "SECONDS", 0.0)
    monkeypatch.setattr(reuse, "LONGER", 1e-3)
    points = rng.random((3, 2000))
    points[0, 0] = 300
    with pytest.warns(
        parki.ParkiWarning, match=r"lie within \[.*of \[.*, 3.*\] along axis 0"
    ) as found:
        parki.Plan("laplace", points, points, periodicity=(0, 1, 1), box=[None, 1, 1])
    assert "axis 1" not in str(found[0].message) and "axis 2" not in str(found[0].message)


def test_views_have_the_axes_of_the_caller():
    trg, src, _ = given("laplace")
    box, periodic = [None, 4.0, 1.0], (False, True, False)
    plan = parki.Plan("laplace", trg, src, periodicity=periodic, box=box)
    assert "laplace, periodic along axis 1, " in plan.describe()
    assert "periodic along axis 1" in repr(plan) and "periodic along axis 1" in plan._repr_html_()
    grid = plan.setup.grid
    assert f"grid {grid[0]} x {grid[1]} x {grid[2]}, " in plan.describe()
    assert np.argmax(grid) == 1  # the longest edge
    assert plan.box[1:].tolist() == [4, 1] and plan.box[0] < 2
    assert plan.origin[0] == pytest.approx(min(trg[0].min(), src[0].min()), abs=0.1)
    spheres = parki.Spheres(src, 0.1, periodicity=(0, 1, 1), box=BOX)
    assert "periodic along axes 1 and 2" in repr(spheres)
