"""The reference sums, held to known constants, exact far fields, lattice sums and identities.

The module under test imports nothing but its own parts from parki, and this file nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from random_systems import (
    BOX,
    KERNELS,
    SWEPT,
    TOLERANCE,
    VALUE,
    around,
    assert_close,
    clear_system,
    differences,
    every_kernel,
    every_periodicity,
    fields,
    rms,
    summed,
    system,
)

from parki.reference import direct_sum

# With a pressure other than zero.
PRESSED = ("stokes_sl", "stokes_dl", "stokes_comb", "stokes_dipole")
periodic = pytest.mark.parametrize("periodicity", [1, 2, 3])
u_and_p = pytest.mark.parametrize(
    ("kernel", "want"), [(n, "u") for n in SWEPT] + [(n, "p") for n in SWEPT if n in PRESSED]
)


def plain(kernel, trg, src, dens, norms, want="u"):
    """Free-space sum straight from the definitions, u or p."""
    r = trg[:, :, None] - src[:, None, :]
    distance = np.sqrt(np.sum(r**2, axis=0))
    inverse = np.divide(1, distance, out=np.zeros_like(distance), where=distance > 0)
    if kernel == "laplace":
        return inverse @ dens
    if kernel == "laplace_dipole":
        return np.einsum("js,jts,ts->t", dens, r, inverse**3)
    if kernel == "stokes_rotlet":
        return np.sum(np.cross(dens[:, None], r, axis=0) * inverse**3, axis=-1)
    u, p = np.zeros_like(trg), np.zeros(trg.shape[1])
    if kernel == "stokes_dipole":  # by its terms: D r - D^T r - tr D r + 3 (r.D r) r / r^2
        trace, rdr = np.einsum("jjs->s", dens), np.einsum("jts,jks,kts->ts", r, dens, r)
        u += np.einsum("its,ts->it", -trace * r + 3 * rdr * inverse**2 * r, inverse**3)
        u += np.einsum("iks,kts,ts->it", dens - dens.swapaxes(0, 1), r, inverse**3)
        p += np.sum(6 * rdr * inverse**5 - 2 * trace * inverse**3, axis=1)
    if kernel in ("stokes_sl", "stokes_comb"):
        fr = np.einsum("jts,js->ts", r, dens[:3])
        u += dens[:3] @ inverse.T + np.einsum("ts,its->it", fr * inverse**3, r)
        p += np.sum(2 * fr * inverse**3, axis=1)
    if kernel in ("stokes_dl", "stokes_comb"):
        qr, nr = np.einsum("jts,js->ts", r, dens[-3:]), np.einsum("jts,js->ts", r, norms)
        u += np.einsum("ts,its->it", -6 * qr * nr * inverse**5, r)
        qn = np.sum(dens[-3:] * norms, axis=0)
        p += np.sum(4 * qn * inverse**3 - 12 * qr * nr * inverse**5, axis=1)
    return u if want == "u" else p


def neutral(kernel, dens):
    """Remove the mean of the charges or forces (double layer and rotlet need none of it)."""
    dens = dens.copy()
    if kernel == "laplace":
        dens -= dens.mean()
    elif kernel == "stokes_comb":
        dens[:3] -= dens[:3].mean(axis=1, keepdims=True)
    return dens


@pytest.mark.parametrize("kernel", KERNELS)
def test_free_space_is_the_plain_sum(kernel):
    given = system(kernel)
    for want in ("u", "p")[: 1 + (kernel in PRESSED)]:
        assert_close(summed(kernel, given, 0, want=want), plain(kernel, *given, want))


@pytest.mark.each
@every_kernel
@periodic
def test_independent_of_xi(kernel, periodicity):
    given, want = system(kernel), fields(kernel)
    auto, low, high = (
        summed(kernel, given, periodicity, xi=xi, want=want) for xi in (None, 3.0, 6.0)
    )
    for result in (low, high):
        for field, expected in zip(result, auto, strict=True):
            assert_close(field, expected)


def test_long_box_keeps_its_digits():
    """The closed forms of the cut-off kernels cancel where K R is small: here it is 0.5."""
    trg, src, *others = system("stokes_comb", count=5)
    how = {"box": [20, 1, 1], "want": ("u", "p", "grad_u")}
    given = 0.1 * trg, 0.1 * src, *others
    auto, high = (summed("stokes_comb", given, 1, xi=xi, **how) for xi in (None, 5.0))
    for field, expected in zip(high, auto, strict=True):
        assert_close(field, expected)


@every_kernel
@periodic
def test_invariant_under_translation(kernel, periodicity):
    trg, src, *others = system(kernel)
    expected = summed(kernel, (trg, src, *others), periodicity)
    shift = np.array([[0.375], [-0.25], [0.4375]])  # few binary digits: little is rounded
    periods = np.where(np.arange(3) < periodicity, BOX, 0)[:, None]
    wrapped = src + np.random.default_rng(3).integers(-2, 3, src.shape) * periods
    # Moving rounds the points, by up to 1e-16 of separations down to 1e-2.
    for moved in ((trg + shift, src + shift), (trg, wrapped)):
        found = summed(kernel, (*moved, *others), periodicity)
        assert_close(found, expected, 10 * TOLERANCE)


@u_and_p
def test_lattice_sum_1p(kernel, want):
    trg, src, dens, norms = system(kernel, count=6)
    dens = neutral(kernel, dens)
    # The tail of a symmetric sum over |n| <= m is a series in h = (m + 1/2)^-2: extrapolate to 0.
    counts = [16, 24, 32, 48, 64, 80]
    steps = [(count + 0.5) ** -2 for count in counts]
    result = summed(kernel, (trg, src, dens, norms), 1, want=want)
    expected = np.zeros_like(result)
    for i, count in enumerate(counts):
        shifts = np.arange(-count, count + 1) * BOX[0]
        images, *others = (np.repeat(a, shifts.size, axis=-1) for a in (src, dens, norms))
        images[0] += np.tile(shifts, src.shape[1])
        total = plain(kernel, trg, images, *others, want)
        weight = np.prod([h / (h - steps[i]) for j, h in enumerate(steps) if j != i])
        expected += weight * total
    # Without the targets on sources. Extrapolation amplifies the rounding of the sums.
    assert_close(result[..., :12], expected[..., :12], 1e-11)


def test_self_value_of_the_cube():
    madelung, point = -2.8372974794806, np.array([[0.2], [0.7], [0.4]])
    side = 1.7
    charge = direct_sum("laplace", point, point, [1.0], box=3 * [side], periodicity=3)
    np.testing.assert_allclose(side * charge, madelung, rtol=2e-14)
    force = [[0.0], [1.0], [0.0]]
    flow = direct_sum("stokes_sl", point, point, force, box=3 * [side], periodicity=3)
    np.testing.assert_allclose(0.75 * side * flow[1], madelung, rtol=2e-14)
    np.testing.assert_allclose(flow[[0, 2]], 0, atol=1e-14)


def test_rock_salt():
    corners = np.stack(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1)
    charges = (-1.0) ** corners.sum(axis=0)
    result = direct_sum("laplace", corners, corners, charges, box=[2, 2, 2], periodicity=3)
    np.testing.assert_allclose(result, -1.7475645946331822 * charges, rtol=1e-13)


@every_kernel
@every_periodicity
def test_limit_on_a_source(kernel, periodicity):
    """There all fields are those of the sum without the singular part, which is free space's."""
    trg, src, dens, norms = clear_system(kernel)
    src[:, 0] = trg[:, 0]
    point, only = src[:, :1], (..., slice(1))
    step = 0.015  # larger, as the singular part is taken off the values
    cloud, arguments = around(point, step), {"box": BOX, "want": fields(kernel)}
    whole = direct_sum(kernel, cloud, src, dens, norms, **arguments, periodicity=periodicity)
    alone = direct_sum(kernel, cloud, point, dens[only], norms[only], **arguments, periodicity=0)
    smooth = [a - b for a, b in zip(whole, alone, strict=True)]
    result = direct_sum(kernel, point, src, dens, norms, **arguments, periodicity=periodicity)
    for field, values in zip(result, smooth, strict=True):
        middle = np.mean(values.reshape(*values.shape[:-1], 3, 8) @ VALUE, axis=-1)
        assert_close(field, middle[..., None], 1e-8, rms(field) or 1)
    gradient = fields(kernel).index("grad_u")
    assert_close(result[gradient], differences(smooth[0], step), 1e-8)


@periodic
def test_many_sources_meet_the_blocked_paths(periodicity):
    rng = np.random.default_rng(7)
    trg, src = rng.random((3, 20)), rng.random((3, 4500))
    dens, norms = rng.standard_normal((6, 4500)), rng.standard_normal((3, 4500))
    arguments = {"box": [1, 1, 1], "periodicity": periodicity}
    low, high = (
        direct_sum("stokes_comb", trg, src, dens, norms, **arguments, xi=xi) for xi in (5.0, 7.0)
    )
    assert_close(low, high)


@every_kernel
def test_fields_come_as_asked_for(kernel):
    trg, src, dens, norms = clear_system(kernel)
    arguments = {"box": BOX, "periodicity": 3}
    names = fields(kernel)[::-1]
    both = direct_sum(kernel, trg, src, dens, norms, **arguments, want=names)
    vector = () if kernel.startswith("laplace") else (3,)
    shapes = {"u": (*vector, 4), "p": (4,), "grad_u": (*vector, 3, 4), "stress": (3, 3, 4)}
    for name, field in zip(names, both, strict=True):
        assert field.shape == shapes[name]
        assert_close(direct_sum(kernel, trg, src, dens, norms, **arguments, want=name), field)
    (alone,) = direct_sum(kernel, trg, src, dens, norms, **arguments, want=("u",))
    np.testing.assert_array_equal(alone, direct_sum(kernel, trg, src, dens, norms, **arguments))


@periodic
def test_empty_and_degenerate_input(periodicity):
    none, point = np.zeros((3, 0)), np.full((3, 1), 0.25)
    arguments = {"box": [1, 1, 1], "periodicity": periodicity}
    assert direct_sum("stokes_sl", none, point, point, **arguments).shape == (3, 0)
    assert direct_sum("stokes_sl", none, point, point, **arguments, want="p").shape == (0,)
    for kernel in ("stokes_sl", "stokes_rotlet"):
        p, gradient = direct_sum(kernel, point, none, none, **arguments, want=("p", "grad_u"))
        np.testing.assert_array_equal(p, [0.0])
        np.testing.assert_array_equal(gradient, np.zeros((3, 3, 1)))
    np.testing.assert_array_equal(direct_sum("laplace", point, none, [], **arguments), [0.0])
    # A point alone, so that nothing extends along the free directions.
    values = [direct_sum("laplace", point, point, [1.0], **arguments, xi=xi) for xi in (2.0, 6.0)]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-13)


class Options(NamedTuple):
    """What `direct_sum` reads of `parki.EwaldOptions`."""

    periodicity: int
    box: tuple[float | None, ...]
    dl_mean: str = "zero"


REFUSED = {
    ValueError: [
        ({"kernel": "stokes"}, "kernel is 'stokes', expected one of 'laplace'"),
        ({"periodicity": 4}, "periodicity is 4"),
        ({"xi": -1.0}, "xi is -1.0, expected a positive number"),
        ({"box": [1, 1]}, "expected three positive lengths"),
        ({"trg": np.zeros((4, 3))}, r"trg has shape \(4, 3\), expected \(3, N\)"),
        ({"dens": np.zeros((3, 2))}, r"dens has shape \(3, 2\), expected \(6, 1\)"),
        ({"norms": None}, "stokes_comb needs norms"),
        ({"want": "v"}, "want is 'v', expected one of 'u', 'p', 'grad_u', 'stress' or a tuple"),
        ({"want": ("u", None)}, "want is .*None.*, expected one of 'u'"),
        ({"kernel": "laplace", "dens": [1.0], "want": "p"}, "laplace kernel has no pressure"),
        ({"kernel": "laplace", "dens": [1.0], "want": "stress"}, "'stress', but the laplace"),
        ({"kernel": "stokes_dipole"}, r"dens has shape \(6, 1\), expected \(3, 3, 1\)"),
        (
            {"box": [None, 1, 1]},
            r"box is \[None, 1, 1\], but axis 0 is periodic and needs its length",
        ),
        ({"box": None}, "box is missing; give box and periodicity, or options"),
        ({"periodicity": None}, "periodicity is missing; give box and periodicity, or options"),
        (
            {"options": Options(1, (1, 1, 1))},
            "options and box or periodicity were given; leave out",
        ),
        (
            {"options": Options(3, (1, 1, 1), "flux"), "box": None, "periodicity": None},
            "dl_mean is 'flux', but direct_sum has the mean of zero; add 8 pi / V",
        ),
    ],
    TypeError: [
        ({"kernel": ["stokes_sl"]}, r"kernel is \['stokes_sl'\], expected one of 'laplace'"),
        ({"periodicity": 2.0}, r"periodicity is 2.0 \(float\), expected 0, 1, 2 or 3"),
        ({"periodicity": True}, r"periodicity is True \(bool\), expected"),
        ({"periodicity": np.array([1, 2])}, "periodicity is .*ndarray.*, expected 0, 1"),
        ({"box": ["1", "1", "1"]}, "box has dtype <U1, expected real numbers"),
        ({"box": 2.0}, "box is 2.0, expected three lengths"),
        ({"box": "123"}, "box has dtype <U1, expected real numbers"),
        ({"xi": "2"}, "xi has dtype <U1, expected real numbers"),
        ({"trg": [["0"]] * 3}, "trg has dtype <U1, expected real numbers"),
        ({"trg": np.full((3, 1), None)}, "trg has dtype object, expected real numbers"),
        ({"trg": [[1.0, 2.0], [3.0], [4.0]]}, "trg is a list of uneven rows, expected an array"),
        ({"dens": np.ones((6, 1)) * 1j}, "dens has dtype complex128, expected real numbers"),
        ({"norms": np.ones((3, 1), bool)}, "norms has dtype bool, expected real numbers"),
        ({"want": np.array(["u", "p"])}, "want is .*, expected one of 'u'"),
        ({"options": 3, "box": None, "periodicity": None}, "options is a int, expected EwaldOpt"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [(kind, *case) for kind, cases in REFUSED.items() for case in cases],
)
def test_what_is_refused(kind, change, message):
    point = np.zeros((3, 1))
    given = {"kernel": "stokes_comb", "trg": point, "src": point, "norms": point}
    given |= {"dens": np.zeros((6, 1)), "box": [1, 1, 1], "periodicity": 1}
    with pytest.raises(kind, match=message):
        direct_sum(**(given | change))


@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
def test_options_in_place_of_box_and_periodicity(periodicity):
    """By anything that has both, as `parki.EwaldOptions`; free edges may be left to the points."""
    rng = np.random.default_rng(2)
    points, f = rng.random((3, 9)), rng.standard_normal((3, 9))
    box = [1.0] * periodicity + [None] * (3 - periodicity)
    expected = direct_sum("stokes_sl", points, points, f, box=[1, 1, 1], periodicity=periodicity)
    options = Options(periodicity, tuple(box))
    for found in (
        direct_sum("stokes_sl", points, points, f, box=box, periodicity=periodicity),
        direct_sum("stokes_sl", points, points, f, options=options),
        direct_sum("stokes_sl", points, points, f, None, options),
        direct_sum("stokes_sl", points, points, f, options),
    ):
        np.testing.assert_array_equal(found, expected)
    # Pairs coincide within a part of the points' extent: here the two do not.
    close = np.array([[0.0, 1e-12], [0, 0], [0, 0]])
    found = direct_sum("laplace", close, close, [1.0, 1.0], options=Options(0, (None, None, None)))
    np.testing.assert_allclose(found, 1e12)
    alone = direct_sum("laplace", close[:, :1], close[:, :1], [1.0], periodicity=0)
    np.testing.assert_array_equal(alone, [0.0])
