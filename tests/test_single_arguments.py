"""Single arguments of the wrong kind: refused at once, by name, wherever they are given."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import parki
from parki import ParkiTypeError, ParkiValueError
from parki.ewald.choice import machines
from parki.interchange import as_flag, shown
from parki.mesh import Grid
from parki.reference import direct_sum
from parki.reference.split import Clouds, cheapest_split

X = np.random.default_rng(0).random((3, 10))
F = np.ones((3, 10))
BOX = parki.EwaldOptions(3, [1, 1, 1], 1e-2)
TYPE, VALUE = ParkiTypeError, ParkiValueError


def cells(**changes):
    return parki.CellList(**{"points": X, "cutoff": 0.2, "box": [1, 1, 1], **changes})


def grid(**changes):
    return Grid(**{"shape": (16, 16, 16), "spacing": 1 / 16, **changes})


def vjp(**changes):
    return parki.vjp("stokes_sl", X, X, F, BOX, **{"values": F, **changes})


def jvp(tangents):
    return parki.jvp("stokes_sl", X, X, F, BOX, tangents=tangents)


def over(items):
    return list(parki.Progress("steps").over(items))


def with_options(**options):
    return parki.EwaldOptions(3, [1, 1, 1], **options)


ODD = [
    (lambda: with_options(precision=np.ones(3)), VALUE, "precision is array.*; expected one of"),
    (lambda: with_options(precision=np.array([])), VALUE, "precision is array.*; expected one of"),
    (lambda: with_options(expert=3.5, split="auto"), TYPE, "expert is a float; expected parki.E"),
    (lambda: parki.lattice(1, 1, 1, ""), TYPE, "xy is ''; expected a finite length"),
    (lambda: parki.lattice(1j, 1, 1), TYPE, "lx is 1j; expected a finite length"),
    (lambda: parki.lattice(1, True, 1), TYPE, "ly is True; expected a finite length"),
    (lambda: parki.lattice("1", 1, 1), TYPE, "lx is '1'; expected a finite length"),
    (lambda: parki.lattice(np.nan, 1, 1), VALUE, "lx is nan; expected a finite length"),
    (lambda: parki.lattice(1, 1, 1, [0.5]), TYPE, "xy is .0.5.; expected a finite length"),
    (lambda: parki.lattice(10**400, 1, 1), VALUE, r"lx is 1000.*\.\.\.; expected a finite"),
    (lambda: vjp(wrt=None), TYPE, "wrt is None; expected names of inputs of stokes_sl"),
    (lambda: vjp(wrt=np.array(np.nan)), TYPE, "wrt is .*; expected names of inputs of stokes_sl"),
    (lambda: vjp(wrt=([],)), TYPE, "wrt is .*; expected names of inputs of stokes_sl"),
    (lambda: jvp(None), TYPE, "tangents is None; expected names of inputs of stokes_sl"),
    (lambda: jvp(["dens"]), TYPE, "tangents is .'dens'.; expected names of inputs"),
    (
        lambda: parki.stokes_sl(X, X, F, boxes=[3.0], systems=[0, 10]),
        TYPE,
        "boxes is a list; expected 3 edge lengths for each system",
    ),
    (lambda: parki.kernel(["laplace"]), VALUE, "kernel is .'laplace'.; expected one of"),
    (
        lambda: parki.kernel("stokes_sl", epsilon=0.1, blob=np.ones(3)),
        VALUE,
        "blob is array.*; expected one of gaussian",
    ),
    (
        lambda: parki.Plan(f"yukawa(kappa={'-' * 100_000}1)", X, X, BOX),
        VALUE,
        r"kernel is 'yukawa\(kappa=-*\.\.\.; expected a name and parameters",
    ),
    (
        lambda: parki.EwaldOptions(3, memoryview(np.eye(3))),
        TYPE,
        "box is <memory.*; expected 3 edge lengths",
    ),
    (lambda: parki.near_pairs(X, X, 1e7, BOX), VALUE, r"radius is 1e\+07, which meets about 8e.22"),
    (lambda: parki.near_pairs(X, X, 1e300, BOX), VALUE, r"radius is 1e\+300, which meets about"),
    (
        lambda: parki.Spheres(X, 0.05, BOX).check(F[None]),
        VALUE,
        r"forces has shape \(1, 3, 10\); check takes one set of forces at a time",
    ),
    (
        lambda: parki.Spheres("points.npy", 0.1, BOX),
        TYPE,
        "points is a str; expected an array of numbers",
    ),
    (
        lambda: parki.Spheres(X, [0.1, [0.2]], BOX),
        TYPE,
        "radii is a list; expected an array",
    ),
    (lambda: cells(points=[[1], [2, 3], [4]]), TYPE, "points is a list; expected an array"),
    (lambda: cells(cutoff=None, shape=[10**400] * 3), VALUE, "shape is .*; expected 3 positive"),
    (lambda: cells(spare=10**60), VALUE, "points holds 10 points, and spare is 1000"),
    (lambda: cells(periodic=None), TYPE, "periodic is None; expected 3 truth values"),
    (lambda: cells(periodic="abc"), TYPE, "periodic is 'abc'; expected 3 truth values"),
    (lambda: cells(spare="x"), TYPE, "spare is 'x'; expected a number of columns"),
    (lambda: cells(spare=-1), VALUE, "spare is -1; expected a number of columns"),
    (lambda: cells(scale="x"), TYPE, "scale is 'x'; expected a positive number"),
    (lambda: cells(scale=np.nan), VALUE, "scale is nan; expected a positive number"),
    (lambda: cells(along=np.ones(3)), TYPE, "along is array.*; expected True or False"),
    (lambda: cells(offsets=[0.5]), TYPE, "offsets is .0.5.; expected whole numbers"),
    (lambda: cells(offsets=[0, 99]), VALUE, "offsets is .0, 99.; expected .* to the 10 points"),
    (lambda: cells(tilts=[1, 2]), VALUE, r"tilts has shape \(2,\) and dtype int64; expected"),
    (lambda: cells(box=[np.nan] * 3), VALUE, "box is .*; expected 3 positive lengths"),
    (lambda: parki.mesh.kaiser_bessel(4, "x"), TYPE, "shape is 'x'; expected a positive number"),
    (lambda: parki.mesh.bspline(np.ones(3)), TYPE, "order is array.*; expected a B-spline's"),
    (lambda: grid(origin=[[1], [2, 3]]), TYPE, "origin is .*; expected a coordinate"),
    (lambda: grid(shape=(True, 16)), TYPE, "shape is .True, 16.; expected 2 or 3 numbers"),
    (lambda: grid(values=[[1], [2, 3]]), TYPE, "values is a list; expected an array"),
    (
        lambda: parki.mesh.spread(X, X[0], grid(), method=np.ones(3)),
        VALUE,
        "method is array.*; expected one of auto",
    ),
    (lambda: over(None), TYPE, "items is a NoneType; expected what a loop takes"),
    (lambda: parki.Progress("a", rtol=np.nan), VALUE, "rtol is nan; expected a positive number"),
]


@pytest.mark.parametrize(("call", "error", "message"), ODD)
def test_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_arrays_for_results_of_a_mesh():
    """As for results of sums: they can be written, and are no values that are read meanwhile."""
    plan = parki.mesh.InterpolatePlan(X[:2] * 15 / 16, Grid((16, 10), spacing=1 / 16))
    values = np.ones(160)
    values.flags.writeable = False
    with pytest.raises(ParkiValueError, match="out is read-only"):
        plan(values.reshape(16, 10), out=values[:10])
    with pytest.raises(ParkiValueError, match="out shares memory with values"):
        plan(field := np.ones((16, 10)), out=field[0])


def test_methods_of_other_spellings_in_tilted_boxes():
    """Refused as 'gm1d' is: the velocities of "GM-1D" were off by some percent."""
    box = parki.lattice(1, 1, 1, 0.4)
    for method in ("gm1d", "GM-1D", "sm-2d"):
        with pytest.raises(ParkiValueError, match="takes boxes along the axes"):
            parki.EwaldOptions(3, box, expert=parki.Expert(p2p_method=method))


@pytest.mark.parametrize("edge", [3e39, 1e70])
def test_boxes_that_float32_does_not_hold(edge):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = parki.laplace(edge * X, edge * X, F[0], periodicity=3, box=[edge] * 3)
    right = parki.laplace(X, X, F[0], periodicity=3, box=[1] * 3)
    np.testing.assert_allclose(edge * found, right, rtol=1e-6, atol=1e-6)


def test_a_box_that_grows_beyond_all_numbers():
    plan = parki.Plan("laplace", X, X, BOX)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ParkiValueError, match=r"edges of about 1e.300"):
            plan.update_points(X, X, box=[1e300] * 3)


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e150, 1e300])
def test_boxes_beyond_all_numbers(size):
    """Refused before squares of their lengths overflow or vanish, also of lattice vectors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for box in ([size] * 3, parki.lattice(1, 1, 1, 0.4, -0.2, 0.1) * size):
            with pytest.raises(ParkiValueError, match=r"the box has edges of about"):
                parki.EwaldOptions(3, box)


def test_periodicity_of_tensors_without_numbers():
    torch = pytest.importorskip("torch")
    for given in (torch.ones((3, 0)), torch.ones((3, 2)), np.ones((3, 2))):
        with pytest.raises(ParkiTypeError, match="expected the number of periodic"):
            parki.EwaldOptions(given, [1, 1, 1])


def test_a_tuned_file_of_nested_brackets(tmp_path, caplog):
    file = tmp_path / "tuned.json"
    file.write_text("[" * 100_000)
    assert machines._tuned(str(file)) is None
    assert "run 'parki tune' again" in caplog.text


def test_values_in_messages():
    class Odd:
        def __repr__(self):
            raise RuntimeError

    assert shown(1.5) == "1.5"
    assert shown(Odd()) == "a Odd"
    assert len(shown("x" * 1000)) < 250
    assert shown(10**5000) == "a int"
    for value in (True, np.True_, 1):
        assert as_flag(value) is True


def test_reference_refuses_what_takes_hours():
    x = X * [[1], [1e5], [1e5]]
    for box, periodicity in (([1, 1, 1e8], 3), ([1, 1, 1], 1)):
        with pytest.raises(ValueError, match=r"direct_sum would take .* s or more"):
            direct_sum("laplace", x, x, F[0], box=box, periodicity=periodicity)
    for xi in (1e300, 1e-300):
        with pytest.raises(ValueError, match="take another xi"):
            direct_sum("laplace", X, X, F[0], box=[1, 1, 1], periodicity=3, xi=xi)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_reference_refuses_boxes_beyond_all_numbers(size):
    for box in ([size] * 3, np.diag([size] * 3)):
        with pytest.raises(ValueError, match=r"box has sides of .*, whose powers are no numbers"):
            direct_sum("laplace", X, X, F[0], box=box, periodicity=3)


def test_reference_in_a_long_box_sums_few_images():
    """With a cut-off by the longest edge it had 65 000 images, whatever the number of points."""
    x = X[:, :3] * [[1], [1], [1000]]
    points = Clouds(x, x, np.array([1.0, 1.0, 1000.0]))
    split = cheapest_split("laplace", points, 3, ("u",))
    assert math.prod(2 * split.image_range(axis) + 1 for axis in range(3)) < 5000
    found = direct_sum("laplace", x, x, [1, 1, -2], box=[1, 1, 1000], periodicity=3)
    right = direct_sum("laplace", x, x, [1, 1, -2], box=[1, 1, 1000], periodicity=3, xi=0.6)
    np.testing.assert_allclose(found, right, rtol=1e-11)
