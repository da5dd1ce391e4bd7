"""`want`: pressures and gradients of every kernel, and rotlets."""

from __future__ import annotations

import re

import flat
import numpy as np
import pytest
from contract import call_of, rms
from few import FEW

import parki
from parki import EwaldOptions, ParkiTypeError, ParkiValueError, Plan
from parki.ewald.sums import SUMS
from parki.reference import direct_sum

# Neither a cube nor of unit size, so that no power of the length unit goes unnoticed.
BOX = (30.0, 20.0, 10.0)
N = 80
RNG = np.random.default_rng(7)
SRC = (np.array(BOX)[:, None] * RNG.random((3, N))).astype("f4").astype("f8")
TRG = (np.array(BOX)[:, None] * RNG.random((3, N))).astype("f4").astype("f8")
TRG[:, : N // 4] = SRC[:, : N // 4]  # a pair that coincides, in several cells
DENS = RNG.standard_normal((6, N)).astype("f4").astype("f8")
NORMS = 3 * RNG.standard_normal((3, N)).astype("f4").astype("f8")
TENSORS = RNG.standard_normal((3, 3, N)).astype("f4").astype("f8")


def density(kernel):
    *shape, _ = SUMS[kernel].density_shape(N)
    return {0: DENS[0], 1: DENS[: SUMS[kernel].rows], 2: TENSORS}[len(shape)]


def normals(kernel):
    return NORMS if SUMS[kernel].normals else None


def everything(kernel):
    return ("u", "p", "grad_u", "stress") if "p" in SUMS[kernel].terms else ("u", "grad_u")


def make(kernel, periodicity=3, trg=TRG, src=SRC, want=None, tolerance=1e-11, **more):
    options = flat.options(periodicity=periodicity, box=BOX, tolerance=tolerance, **more)
    want = everything(kernel) if want is None else want
    return Plan(kernel, trg, src, normals(kernel), options, want=want)


def size(values):
    """Return the rms over targets of the Frobenius norm."""
    return rms(values.reshape(-1, values.shape[-1]))


# --- values -----------------------------------------------------------------------------------


@pytest.mark.each
@pytest.mark.parametrize("kernel", FEW)
@pytest.mark.parametrize("place", [0.0, 3.7])
def test_all_points_coincide(kernel, place):
    """Only the images are left."""
    points, periodicity = np.full((3, N), place), {"laplace": 3, "stokes_dipole": 2}.get(kernel, 1)
    want = everything(kernel)
    got = make(kernel, periodicity, trg=points, src=points)(density(kernel))
    options = {"box": BOX, "periodicity": periodicity, "want": want}
    refs = direct_sum(kernel, points[:, :1], points, density(kernel), normals(kernel), **options)
    for name, value, ref in zip(want, got, refs, strict=True):
        assert np.isfinite(value).all(), name
        bound = 1e-8 * np.linalg.norm(density(kernel)) * (1 + 9 * (normals(kernel) is not None))
        assert size(value - ref) <= bound, name


# --- calls ------------------------------------------------------------------------------------

ROUGH = {"tolerance": 1e-2, "cutoff": 6.0, "window_points": 8}


@pytest.mark.parametrize("kernel", FEW)
def test_any_selection_in_any_order(kernel):
    """One after the other, and together: the same within twice the promise; by calls, too."""
    dens, norms = density(kernel), [] if normals(kernel) is None else [normals(kernel)]
    options = flat.options(periodicity=3, box=BOX, **ROUGH)
    together = make(kernel, **ROUGH)
    whole = dict(zip(together.want, together(dens), strict=True))
    allowed = dict(zip(together.want, together.promise(dens), strict=True))
    for want in [*whole, ("grad_u",), tuple(reversed(whole)), ["grad_u", "u"]]:
        plan = make(kernel, want=want, **ROUGH)
        results = plan(dens)
        assert isinstance(results, np.ndarray if isinstance(want, str) else tuple)
        called = call_of(parki, kernel)(TRG, SRC, dens, *norms, options, want=want)
        assert all(np.array_equal(*each) for each in zip(called, results, strict=True))
        names = (want,) if isinstance(want, str) else want
        for name, value in zip(names, [results] if isinstance(want, str) else results, strict=True):
            assert value.shape == whole[name].shape and value.flags.c_contiguous
            assert size(value - whole[name]) <= 2 * allowed[name]


def test_rotlets_have_no_pressure():
    plan = make("stokes_rotlet", want="p", **ROUGH)
    out = np.full(N, np.nan)
    assert not plan(DENS[:3], out=out).any()
    assert plan.parameters is None  # nothing is computed
    assert "want p" in plan.describe()


def test_description():
    assert "OpenMP, want u, grad_u\n" in make("laplace", **ROUGH).describe()
    assert "want" not in make("laplace", want="u", **ROUGH).describe()


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message", "kernel", "want"),
    [
        (ParkiValueError, "want has 'v'; expected names among u, p, gr", "stokes_sl", ("u", "v")),
        (ParkiValueError, "want has 'u' twice; name each result once", "laplace", ("u", "u")),
        (ParkiValueError, "want is empty; expected one or more of u, p", "laplace", ()),
        (ParkiValueError, "want has 'p', but laplace has no pressure", "laplace", ("u", "p")),
        (ParkiValueError, "want has 'stress', but laplace has no", "laplace", ("u", "stress")),
        (ParkiTypeError, "want is None; expected a name or a tuple of names", "laplace", None),
        (ParkiTypeError, "want is ('u', 3); expected a name or a tuple", "laplace", ("u", 3)),
        (ParkiTypeError, "want is array([1., 1.]); expected a name or", "laplace", np.ones(2)),
    ],
)
def test_impossible_wants(error, message, kernel, want):
    options = EwaldOptions(periodicity=3, box=BOX)
    with pytest.raises(error, match=re.escape(message)):
        Plan(kernel, TRG, SRC, options, want=want)
    with pytest.raises(error, match=re.escape(message)):
        getattr(parki, kernel)(TRG, SRC, density(kernel), options, want=want)


def test_impossible_outs():
    plan = make("stokes_sl", want=("u", "p"), **ROUGH)
    dens, u, p = DENS[:3].copy(), np.empty((3, N)), np.empty(N)
    for error, message, out in (
        (ParkiTypeError, "out is ndarray; expected a tuple of 2 arrays", u),
        (ParkiTypeError, "out is 1 of them; expected a tuple of 2 arrays", (u,)),
        (ParkiValueError, "out[0] has shape (80,) and dtype float64; expected C-con", (p, u)),
        (ParkiValueError, "out[1] has shape (80,) and dtype float32; exp", (u, p.astype("f4"))),
        (ParkiTypeError, "out[1] is a NoneType; expected an array", (u, None)),
        (ParkiValueError, "out[0] shares memory with dens", (dens, p)),
        (ParkiValueError, "out[0] shares memory with out[1]; both are written", (u, u[1])),
    ):
        with pytest.raises(error, match=re.escape(message)):
            plan(dens, out=out)
