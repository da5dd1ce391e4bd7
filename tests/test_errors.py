"""Every error a user can make: its type, its wording, and that it comes before any work."""

from __future__ import annotations

import dataclasses
import re

import flat
import numpy as np
import pytest

import parki
from parki import EwaldOptions, ParkiTypeError, ParkiValueError, Plan, UnavailableError
from parki.ewald import points as boundary
from parki.runtime.kernel import Kernel

N = 5
ROWS = {"laplace": (), "stokes_comb": (6,), "stokes_dipole": (3, 3)}
VALUE, TYPE = ParkiValueError, ParkiTypeError


def numbers(*shape, dtype=np.float64):
    return np.random.default_rng(3).random(shape).astype(dtype)


def with_value(array, index, value):
    array = array.copy()
    array[index] = value
    return array


@pytest.fixture
def no_work(monkeypatch):
    """Refuse to translate, compile or launch a kernel."""

    def refuse(self, *_, **__):
        raise AssertionError("a kernel was made or launched before the arguments were checked")

    monkeypatch.setattr(Kernel, "__init__", refuse)
    monkeypatch.setattr(Kernel, "__call__", refuse)


def refused(error, message, kernel="stokes_sl", **changes):
    """Expect a plan to be refused with exactly this kind of error, and this in the message."""
    has_normals = kernel in ("stokes_dl", "stokes_comb")
    arguments = {
        "trg": numbers(3, 4),
        "src": numbers(3, N),
        "norms": numbers(3, N) if has_normals else None,
        "options": EwaldOptions(periodicity=1, box=[1, 1, 1], tolerance=1e-3),
    }
    arguments.update(changes)
    with pytest.raises(error, match=re.escape(message)) as info:
        Plan(kernel, *arguments.values())
    assert isinstance(info.value, parki.ParkiError)


# --- options ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (VALUE, "periodicity is 4; expected 0 to 3, the number of periodic", {"periodicity": 4}),
        (VALUE, "periodicity is -1; expected 0 to 3", {"periodicity": -1}),
        (TYPE, "periodicity is 3.0 (float); expected the number of", {"periodicity": 3.0}),
        (TYPE, "periodicity is True (bool); expected the number", {"periodicity": True}),
        (VALUE, "box is [1, 1]; expected 3 positive, finite edge lengths", {"box": [1, 1]}),
        (VALUE, "box is [1, 0, 1]; expected 3 positive", {"box": [1, 0, 1]}),
        (VALUE, "expected 3 positive, finite edge lengths", {"box": [1, np.nan, 1]}),
        (VALUE, "expected 3 positive, finite edge lengths", {"box": [1, 1, np.inf]}),
        (VALUE, "its edges differ by more than a factor of 10000", {"box": [1, 1, 2e4]}),
        (TYPE, "box is 2.0; expected 3 edge lengths, such as [1, 1, 1]", {"box": 2.0}),
        (VALUE, "axis 1 is periodic and needs its", {"periodicity": 2, "box": [1, None, None]}),
        (VALUE, "expected 3 positive", {"periodicity": 0, "box": [1, None]}),
        (TYPE, "box is '123'; expected 3 edge lengths", {"box": "123"}),
        (TYPE, "box is ['1', '1', '1']; expected 3 edge lengths", {"box": ["1", "1", "1"]}),
        (TYPE, "expected 3 edge lengths", {"box": np.ones((3, 1))}),
        (TYPE, "box is [True, 1, 1]; expected 3 edge lengths", {"box": [True, 1, 1]}),
        (VALUE, "tolerance is 0; expected a positive number", {"tolerance": 0}),
        (VALUE, "tolerance is -1e-06; expected a positive number", {"tolerance": -1e-6}),
        (VALUE, "tolerance is nan; expected a positive number", {"tolerance": float("nan")}),
        (VALUE, "tolerance is inf; expected a positive number", {"tolerance": float("inf")}),
        (VALUE, "tolerance is 0.6; expected at most 0.5", {"tolerance": 0.6}),
        (TYPE, "tolerance is None; expected the bound of the error", {"tolerance": None}),
        (TYPE, "tolerance is '1e-6'; expected the bound of the error", {"tolerance": "1e-6"}),
        (TYPE, "tolerance is 1j; expected the bound of the error", {"tolerance": 1j}),
        (TYPE, "tolerance is True; expected the bound of the error", {"tolerance": True}),
        (TYPE, "cutoff is '0.1'; expected the cut-off", {"cutoff": "0.1"}),
        (VALUE, "expected a positive number: the cut-off", {"cutoff": 10**400}),
        (TYPE, "sources_per_cell is '9'; expected the mean number", {"sources_per_cell": "9"}),
        (VALUE, "sources_per_cell is 0; expected a positive", {"sources_per_cell": 0}),
        (VALUE, "cutoff is -1; expected a positive number: the cut-off", {"cutoff": -1}),
        (VALUE, "sources_per_cell and cutoff both", {"cutoff": 0.1, "sources_per_cell": 9}),
        (VALUE, "window_points is 1; expected a whole number from 2 to 18", {"window_points": 1}),
        (VALUE, "window_points is 20; expected a whole", {"window_points": 20}),
        (VALUE, "window_points is 8.0; expected a whole", {"window_points": 8.0}),
        (VALUE, "densities is 'all'; expected one of random, any", {"densities": "all"}),
        (VALUE, "split is 'ewald'; expected one of auto, hasimoto, prolate", {"split": "ewald"}),
        (VALUE, "p2g_method is 'fast'; expected one of auto, owner, ", {"p2g_method": "fast"}),
        (VALUE, "radial is ['erfc']; expected one of poly", {"radial": ["erfc"]}),
        (VALUE, "dl_mean is array(['flux',", {"dl_mean": np.array(["flux", "zero"])}),
        (VALUE, "g2p_method is None; expected one of auto, target", {"g2p_method": None}),
        (VALUE, "executor is 'magic'; expected one of embedded, pykokkos", {"executor": "magic"}),
    ],
)
def test_options(no_work, error, message, options):
    with pytest.raises(error, match=re.escape(message)):
        flat.options(**({"box": [1, 1, 1]} | options))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("tol", "unknown option 'tol'; did you mean tolerance? EwaldOptions takes periodicity, "),
        ("pbc", "did you mean periodicity?"),
        ("normals", "did you mean norms?"),
        ("Tolerence", "did you mean tolerance?"),
        ("targets", "did you mean trg?"),
        ("mu", "unknown option 'mu'; sums leave it out: divide velocities by 8 pi times"),
        ("viscosity", "sums leave it out: divide velocities by 8 pi times the viscosity; Ewald"),
        ("dtype", "sums take the dtype of the arrays; EwaldOptions takes"),
        ("screening", "did you mean kappa?"),
        ("seed", "sums draw no random numbers"),
        ("rng", "sums draw no random numbers"),
        ("qwerty", "unknown option 'qwerty'; EwaldOptions takes"),
    ],
)
def test_unknown_options(no_work, given, message):
    points, keywords = numbers(3, N), {"periodicity": 3, "box": [1, 1, 1], given: 1}
    for take in (
        lambda: EwaldOptions(**keywords),
        lambda: Plan("stokes_sl", points, points, **keywords),
        lambda: parki.stokes_sl(points, points, points, **keywords),
    ):
        with pytest.raises(TYPE, match=re.escape(message)):
            take()


def test_words_of_spheres(no_work):
    for given, message in (("mu", "mean viscosity?"), ("radius", "mean radii?")):
        with pytest.raises(TYPE, match=re.escape(message)):
            parki.Spheres(numbers(3, N), 0.01, periodicity=3, box=[1, 1, 1], **{given: 1})


def test_earlier_names_of_options():
    """They work, and warn with the new words."""
    expert = parki.Expert(sources_per_cell=20.0, split="hasimoto")
    new = EwaldOptions(3, [1, 1, 1], expert=expert)
    message = r"write expert=parki.Expert\(sources_per_cell=20, split='hasimoto'\)"
    with pytest.warns(parki.ParkiDeprecationWarning, match=message) as told:
        assert EwaldOptions(3, [1, 1, 1], cell_size=20, split="hasimoto") == new
    assert told[0].filename == __file__
    with pytest.warns(parki.ParkiDeprecationWarning, match="write options.expert.sources_per_cell"):
        assert new.cell_size == 20
    with pytest.warns(parki.ParkiDeprecationWarning, match='write precision="full"'):
        assert EwaldOptions(3, [1, 1, 1], precision="double") == EwaldOptions(3, [1, 1, 1])
    with pytest.warns(parki.ParkiDeprecationWarning, match="expert=parki.Expert"):
        changed = dataclasses.replace(new, window_points=8)
    assert changed.expert == dataclasses.replace(expert, window_points=8)
    with pytest.raises(AttributeError, match="no attribute 'cell_sizes'"):
        _ = new.cell_sizes


def test_methods_as_the_literature_spells_them():
    expert = parki.Expert(p2p_method="GM-1D", p2g_method="HYBRID", g2p_method="Base")
    chosen = (expert.p2p_method, expert.p2g_method, expert.g2p_method)
    assert chosen == ("gm1d", "hybrid", "base")


def test_any_densities_that_the_dtype_cannot_hold(no_work):
    points = numbers(3, 100).astype("f4")
    options = EwaldOptions(3, [1, 1, 1], 1e-5, densities="any")
    message = (
        "tolerance is 1e-05 for densities='any', which takes one of 5.8e-07 for random densities "
        "of 100 sources, but float32 holds 1e-06 at best; pass float64 arrays, raise the tolerance "
        "to 1.8e-05, or leave"
    )
    with pytest.raises(VALUE, match=re.escape(message)):
        parki.Plan("stokes_sl", points, points, None, options)


def test_options_are_normalised():
    options = EwaldOptions(periodicity=np.int64(3), box=np.array([1, 2, 3], "f4"), tolerance=1e-3)
    assert options.box == (1.0, 2.0, 3.0) and all(type(edge) is float for edge in options.box)
    assert type(options.periodicity) is int and options.tolerance == 1e-3
    assert hash(options) == hash(EwaldOptions(periodicity=3, box=[1, 2, 3], tolerance=1e-3))


@pytest.mark.parametrize(
    ("dtype", "tolerance", "message"),
    [
        ("f8", 9e-14, "tolerance is 9e-14, but float64 holds 1e-13 at best; raise the tolerance"),
        (
            "f4",
            9e-7,
            "tolerance is 9e-07, but float32 holds 1e-06 at best; "
            "pass float64 arrays, or raise the tolerance",
        ),
    ],
)
def test_tolerance_out_of_the_range_of_the_dtype(no_work, dtype, tolerance, message):
    points, options = numbers(3, N, dtype=dtype), EwaldOptions(3, [1, 1, 1], tolerance)
    refused(VALUE, message, trg=points, src=points, options=options)


def test_options_missing(no_work):
    refused(TYPE, "options is a dict; expected EwaldOptions, such as", options={"periodicity": 3})


def test_spaces(no_work):
    """Names are checked by the options, which other libraries keep; what is here, by the sums."""
    with pytest.raises(VALUE, match="expected OpenMP, Serial, Cuda or HIP"):
        EwaldOptions(3, [1, 1, 1], execution_space="Sycl")
    with pytest.raises(TYPE, match="execution_space is a int; expected a name such as 'OpenMP'"):
        EwaldOptions(3, [1, 1, 1], execution_space=7)
    cuda = EwaldOptions(3, [1, 1, 1], execution_space="Cuda")
    if "Cuda" in parki.available_spaces():
        refused(TYPE, "trg is on the host (NumPy), but execution_space is Cuda", options=cuda)
    else:
        refused(UnavailableError, "CuPy", options=cuda)


def test_kernel(no_work):
    names = "laplace, stokes_sl, stokes_dl, stokes_comb"
    refused(VALUE, f"kernel is 'stokes'; expected one of {names}", kernel="stokes")
    refused(VALUE, f"kernel is None; expected one of {names}", kernel=None)
    refused(VALUE, f"kernel is ['laplace']; expected one of {names}", kernel=["laplace"])
    refused(VALUE, "kernel is array(['laplace'", kernel=np.array(["laplace"]))


def test_numbers_that_are_compared_are_told_apart():
    with pytest.raises(VALUE, match=r"tolerance is 0.50000000001; expected at most 0.5"):
        EwaldOptions(3, [1, 1, 1], 0.50000000001)
    with pytest.raises(VALUE, match=r"tolerance is 9.9999999e-14, but float64 holds 1e-13 at best"):
        EwaldOptions(3, [1, 1, 1], 9.9999999e-14).check_dtype(np.dtype("f8"))
    with pytest.raises(VALUE, match=r"tube is 0.1000000001; expected less than ring, which is 0.1"):
        parki.Surface.tori(np.zeros((3, 1)), 0.1, 0.1000000001)
    options = EwaldOptions(3, [1, 1, 1], 1e-13, densities="any")
    for sources in range(2, 60):
        with pytest.raises(VALUE, match="raise the tolerance to") as caught:
            options.random_tolerance(sources, 3, np.dtype("f8"))
        (least,) = re.findall("raise the tolerance to ([^,]+),", str(caught.value))
        enough = dataclasses.replace(options, tolerance=float(least))
        assert enough.random_tolerance(sources, 3, np.dtype("f8")) < 1.2e-13


def test_gradients_are_refused_in_words_that_are_true_of_every_call():
    torch = pytest.importorskip("torch")
    points = torch.rand((3, N), requires_grad=True, dtype=torch.float64)
    grid, words = parki.mesh.Grid((12,) * 3, spacing=1 / 12), "which only the calls of parki.torch"
    for call in (
        lambda: parki.mesh.spread(points, np.ones(N), grid),
        lambda: parki.energy(points, np.ones(N), periodicity=0),
        lambda: parki.CellList(points, 0.2, [1, 1, 1]),
        lambda: parki.RigidSpheres(points, 0.1, periodicity=0),
    ):
        with pytest.raises(TYPE, match=rf"points requires a gradient, {words}.*points\.detach"):
            call()


# --- arrays of a plan --------------------------------------------------------------------------


@pytest.mark.each
@pytest.mark.parametrize("name", ["trg", "src"])
@pytest.mark.parametrize(
    ("error", "message", "points"),
    [
        (VALUE, "{} has shape (7, 3); expected (3, N); transpose it ({}.T)", numbers(7, 3)),
        (VALUE, "{} has shape (7,); expected (3, N)", numbers(7)),
        (VALUE, "{} has shape (3, 2, 2); expected (3, N)", numbers(3, 2, 2)),
        (TYPE, "{} has dtype float16; expected float32 or", numbers(3, 4, dtype="f2")),
        (TYPE, "{} is an array of objects; convert it with {}.astype(", np.full((3, 4), None)),
        (TYPE, "{} is a str; expected an array of numbers", "points"),
        (TYPE, "{} is a list; expected an array", [[1.0, 2.0], [3.0], [4.0]]),
        (TYPE, "{} is a masked array; pass filled values, such as {}.", np.ma.ones((3, 4))),
        (VALUE, "{} contains NaN or infinity; the first is at index (1, 2)", (1, 2, np.nan)),
        (VALUE, "{} contains NaN or infinity; the first is at index (0, 3)", (0, 3, -np.inf)),
        (VALUE, "{} reaches from -0.25 to", (1, 0, -0.25)),
        (VALUE, "to 1.5 along axis 2, which is free, but the box there is [0, 1]", (2, 0, 1.5)),
        (VALUE, "to 1.0000001 along axis 2, which is free, but the", (2, 0, 1 + 1e-7)),
        (VALUE, "{} reaches to -2e+06 along axis 0, more than 1e6 boxes away", (0, 1, -2e6)),
        (VALUE, "{} reaches to 3e+06 along axis 0, more than 1e6 boxes away", (0, 1, 3e6)),
    ],
)
def test_points(no_work, name, error, message, points):
    """What laws do not refuse of every face."""
    if isinstance(points, tuple):
        points = with_value(numbers(3, 4), points[:2], points[2])
    refused(error, message.replace("{}", name), **{name: points})


def test_swapped_bytes(no_work):
    swapped = numbers(3, 4).astype(np.dtype("f8").newbyteorder())
    refused(TYPE, f"trg has dtype {swapped.dtype}; expected float32 or float64", trg=swapped)


def test_the_far_face_of_a_free_axis_belongs_to_the_box():
    """Also when it rounds up in the points' dtype."""
    edge = np.float32(0.7)
    assert float(edge) < 0.7 or float(np.nextafter(edge, np.float32(0))) < 0.7
    for length in (0.7, 0.1, 0.3):
        points = np.full((3, 2), np.float32(length), dtype="f4")
        boundary.check_points("trg", points, EwaldOptions(periodicity=1, box=[length] * 3))
        outside = with_value(points, (1, 1), np.nextafter(np.nextafter(points[1, 1], 1), 1))
        with pytest.raises(VALUE, match="enlarge the box, shift the points, or give None"):
            boundary.check_points("trg", outside, EwaldOptions(periodicity=1, box=[length] * 3))


def test_mixed_dtypes(no_work):
    single = numbers(3, N, dtype="f4")
    message = "src has dtype float32, but trg has float64; give all arrays the same dtype"
    refused(TYPE, message, src=single)
    refused(TYPE, "norms has dtype float32, but trg has", kernel="stokes_dl", norms=single)


@pytest.mark.each
@pytest.mark.parametrize("kernel", ["stokes_dl", "stokes_comb"])
@pytest.mark.parametrize(
    ("error", "message", "norms"),
    [
        (TYPE, "norms is missing; {} needs normals of shape (3, Ns)", None),
        (VALUE, "norms has shape (3, 4); expected (3, 5) for the 5 sources", numbers(3, 4)),
        (VALUE, "expected (3, 5) for the 5 sources given; transpose it (norms.T)", numbers(5, 3)),
        (VALUE, "norms has shape (5,); expected (3, 5)", numbers(5)),
        (VALUE, "norms contains NaN or infinity; the first is at index (2, 4)", (2, 4, np.nan)),
        (TYPE, "norms has dtype int64; expected float32 or", np.ones((3, N), int)),
    ],
)
def test_normals(no_work, kernel, error, message, norms):
    if isinstance(norms, tuple):
        norms = with_value(numbers(3, N), norms[:2], norms[2])
    refused(error, message.replace("{}", kernel), kernel=kernel, norms=norms)


@pytest.mark.parametrize(("kernel", "rows"), [("stokes_sl", 3), ("stokes_comb", 6)])
def test_a_density_in_the_place_of_normals(no_work, kernel, rows):
    points, options = numbers(3, N), parki.EwaldOptions(3, [1, 1, 1])
    with pytest.raises(
        parki.ParkiError, match=r"a plan takes densities when it is called: plan\(dens\)"
    ):
        parki.Plan(kernel, points, points, numbers(rows, N), options)


# --- densities ---------------------------------------------------------------------------------


DENSITIES = [
    ("laplace", VALUE, "dens has shape (6,); expected (5,) for the 5 sources given", numbers(6)),
    ("laplace", VALUE, "dens has shape (1, 6); expected (5,)", numbers(1, N + 1)),
    ("laplace", VALUE, "dens contains NaN or infinity; the first is at index (3,)", (3, np.nan)),
    ("stokes_sl", VALUE, "dens has shape (5,); expected (3, 5)", numbers(N)),
    ("stokes_sl", VALUE, "(5, 3); expected (3, 5) for the 5 sources given; tra", numbers(N, 3)),
    ("stokes_sl", VALUE, "at index (1, 4)", (1, 4, np.inf)),
    ("stokes_comb", VALUE, "(3, 5); expected (6, 5) for the 5 sources given; rows", numbers(3, N)),
    ("stokes_comb", VALUE, "transpose it (dens.T)", numbers(N, 6)),
    ("stokes_dipole", VALUE, "(3, 5); expected (3, 3, 5) for the 5 sources given", numbers(3, N)),
    ("stokes_dipole", VALUE, "reshape it (dens.reshape(3, 3, -1))", numbers(9, N)),
    ("stokes_dipole", VALUE, "to the end (numpy.moveaxis(dens, 0, -1))", numbers(N, 3, 3)),
    ("stokes_dipole", VALUE, "at index (2, 0, 4)", (2, 0, 4, np.nan)),
    ("stokes_sl", TYPE, "dens has dtype int64, but the points", np.ones((3, N), int)),
    ("stokes_sl", TYPE, "dens is a masked array", np.ma.ones((3, N))),
]


def density(kernel, dens):
    if isinstance(dens, tuple):
        return with_value(numbers(*ROWS.get(kernel, (3,)), N), dens[:-1], dens[-1])
    return dens


@pytest.fixture(scope="module")
def plans():
    """Return plans to be applied to wrong densities; laws have others, of any face."""
    norms, points = {"stokes_comb": numbers(3, N)}, (numbers(3, 4), numbers(3, N))
    axes = {"laplace": 0, "stokes_sl": 3, "stokes_comb": 1, "stokes_dipole": 2}
    return {
        k: Plan(k, *points, norms.get(k), EwaldOptions(n, [1, 1, 1], 1e-6)) for k, n in axes.items()
    }


@pytest.mark.parametrize(("kernel", "error", "message", "dens"), DENSITIES)
def test_densities_of_a_plan(plans, no_work, kernel, error, message, dens):
    with pytest.raises(error, match=re.escape(message)):
        plans[kernel](density(kernel, dens))
    with pytest.raises(error, match=re.escape(message)):
        plans[kernel].timed(density(kernel, dens))


def test_densities_of_a_promise(plans, no_work):
    for change, message in (
        (lambda dens: dens.astype(str), "dens has dtype <U32, but the points"),
        (lambda dens: 1j * dens, "dens has dtype complex128, but the points"),
        (lambda dens: dens.astype(object), "dens is an array of objects"),
    ):
        with pytest.raises(TYPE, match=message):
            plans["stokes_sl"].promise(change(numbers(3, N)))


@pytest.mark.parametrize("kernel", ["stokes_dl", "stokes_comb"])
def test_a_single_call_without_normals_or_options(no_work, kernel):
    """Not that options are missing, where these took the place of the normals."""
    points, options = numbers(3, N), EwaldOptions(1, [1, None, None], 1e-3)
    dens, call = numbers(*ROWS.get(kernel, (3,)), N), getattr(parki, kernel)
    with pytest.raises(TYPE, match=f"norms is missing; {kernel} needs normals of shape"):
        call(points, points, dens, options)
    for given in ((), (points,)):
        with pytest.raises(TYPE, match="options is a NoneType; expected EwaldOptions, such as"):
            call(points, points, dens, *given)


def test_options_may_be_fourth_or_fifth():
    """As of `Plan`, `vjp` and `jvp`: one order of arguments for all."""
    points, options = numbers(3, N), EwaldOptions(3, [1, 1, 1], 1e-6)
    expected = parki.stokes_sl(points, points, points, options)
    for given, named in (((None, options), {}), ((), {"options": options, "norms": None})):
        found = parki.stokes_sl(points, points, points, *given, **named)
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(TYPE, match="options is a NoneType; expected EwaldOptions"):
        parki.stokes_sl(points, points, points)
    with pytest.raises(TYPE, match="norms was given, but stokes_sl has no normals"):
        parki.stokes_sl(points, points, points, points, options)


def test_out(plans, no_work):
    read_only, dens = np.empty((3, 4)), numbers(3, N)
    read_only.flags.writeable = False
    shape = re.escape("expected C-contiguous (3, 4), float64")
    for error, message, out in (
        (VALUE, shape, np.empty((4, 3))),
        (VALUE, shape, np.empty((3, 4), dtype="f4")),
        (VALUE, shape, np.empty((3, 8))[:, ::2]),
        (VALUE, "out is read-only", read_only),
        (TYPE, "out is a list; expected an array", [1.0]),
        (VALUE, "out shares memory with dens", dens.reshape(-1)[:12].reshape(3, 4)),
    ):
        with pytest.raises(error, match=message):
            plans["stokes_sl"](dens, out=out)
