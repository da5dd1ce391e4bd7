"""What `parki.torch` and `parki.jax` have in common: values, derivatives, plans, and refusals.

tests/test_torch.py and tests/test_jax.py have what one of them alone has, and the faces of
tests/laws the laws of all sums.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from adapters import frameworks
from few import USUAL
from frameworks import BOX, RADII, TEN, inputs, suspension

import parki
from parki.ewald.sums import SUMS
from parki.reference import direct_sum

TOLERANCE = 1e-6


@pytest.fixture(params=frameworks())
def fr(request):
    """A framework on a device, whose own arrays are made there, too."""
    kind, device = request.param
    made = kind(device)
    with contextlib.ExitStack() as stack:
        if made.name == "jax":
            stack.enter_context(made.own.enable_x64(True))
            stack.enter_context(made.own.default_device(made.device))
        yield made


def near(fr, found, expected, error=1e-7):
    """Compare, relative to the largest value."""
    found, expected = fr.host(found), fr.host(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=error * abs(expected).max())


# --- overflows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("name", ["src", "dens", "plan"])
def test_derivatives_pass_infinities_on(fr, name, value):
    """Whoever scales a loss finds them there, as `torch.amp.GradScaler`; they were an error."""
    given, calls = fr.functions("laplace")
    call, x = calls[name], given[name]
    change, values = fr.host(x).copy(), fr.host(call(x)).copy()
    change[..., 1] = values[1] = value

    def back(x, v):
        return fr.vjp(call, x)[1](v)[0]

    def forth(x, t):
        return fr.jvp(call, (x,), (t,))[1]

    def twice(x, t):  # derivatives of derivatives
        return fr.vjp(fr.grad(lambda one: (call(one) ** 2).sum()), x)[1](t)[0]

    for function, bad in ((back, values), (forth, change), (twice, change)):
        for run in (function, fr.compiled(function)):
            assert np.isnan(fr.host(run(x, fr.array(bad)))).all()
    finite = np.nan_to_num(values, nan=1.0, posinf=1.0)
    rows = fr.vmap(lambda v: back(x, v))(fr.array(np.stack([finite, values])))
    assert np.isnan(fr.host(rows[1])).all()
    near(fr, rows[0], back(x, fr.array(finite)))


@pytest.mark.parametrize("factor", [1e-30, 1e30])
@pytest.mark.parametrize(("dtype", "precision"), [("f4", "full"), ("f8", "mixed")])
def test_derivatives_of_large_and_small_losses(fr, dtype, precision, factor):
    """They are those of another one times a factor, in full precision also twice."""
    given = fr.arrays("laplace", dtype, same=True)
    x, dens = given["trg"], given["dens"]
    options = parki.EwaldOptions(3, BOX, 1e-3, precision=precision)
    large, values = (fr.array(fr.host(dens)[::-1] * np.dtype(dtype).type(f)) for f in (factor, 1))

    def both(x, f, v):
        return fr.vjp(lambda x, f: fr.module.laplace(x, x, f, options), x, f)[1](v)

    def second(v):
        return fr.jvp(lambda f: both(x, f, values)[0], (dens,), (v,))[1]

    orders = [lambda v: both(x, dens, v)[0], lambda v: both(x, dens, v)[1], second]
    orders = orders[: 3 if precision == "full" else 2]
    found, expected = ([order(v) for order in orders] for v in (large, values))
    for one, other in zip(found, expected, strict=True):
        near(fr, one / factor, other, 1e-5)


# --- transformations ------------------------------------------------------------------------------

# Sums are linear in the density alone, as those of plans are, and have one rule for the others.
NAMES = ["src", "dens", "plan"]
NAMES += [pytest.param(name, marks=pytest.mark.slow) for name in ("trg", "norms")]


@pytest.mark.parametrize("name", NAMES)
def test_vmap(fr, name):
    given, calls = fr.functions()
    call, value = calls[name], given[name]
    many = fr.stack([value, 0.9 * value, 0 * value + 0.4])
    expected = fr.stack([call(one) for one in many])
    near(fr, fr.vmap(call)(many), expected)
    last = fr.vmap(call, -1)(fr.array(np.moveaxis(fr.host(many), 0, -1)))
    near(fr, fr.array(np.moveaxis(fr.host(last), -1, 0)), expected)
    others = fr.stack([many, fr.stack([*many][::-1])])
    near(fr, fr.vmap(fr.vmap(call))(others), fr.stack([expected, fr.stack([*expected][::-1])]))
    slope = fr.grad(lambda one: (call(one) ** 2).sum())
    near(fr, fr.vmap(slope)(many), fr.stack([slope(one) for one in many]))
    near(fr, fr.compiled(fr.vmap(call))(many), expected)


def test_two_inputs_are_mapped_at_once(fr):
    given = fr.arrays("stokes_dl")
    call = fr.function("stokes_dl", parki.EwaldOptions(3, BOX, 1e-4))
    turned = fr.array(fr.host(given["trg"])[:, ::-1].copy())
    moved = fr.stack([given["trg"], turned])
    dens = fr.stack([given["dens"], 2 * given["dens"]])
    slope = fr.grad(lambda trg, d: call({**given, "trg": trg, "dens": d}).sum())
    pull = fr.host(fr.vmap(slope)(moved, dens))
    np.testing.assert_allclose(pull[1], 2 * pull[0][:, ::-1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_jacobians_and_hessians(fr, name):
    """In both modes, which differ within the tolerance; those by densities as squares of it."""
    given, calls = fr.functions()
    call, value = calls[name], given[name]
    loss = lambda one: (call(one) ** 2).sum()  # noqa: E731
    matrix = fr.jacrev(call)(value)
    near(fr, matrix, fr.jacfwd(call)(value), 1e-2)
    if name not in ("dens", "plan"):
        slope = lambda one: fr.grad(loss)(one).sum()  # noqa: E731
        both, summed = (fr.host(of(value)) for of in (fr.hessian(loss), fr.grad(slope)))
        rows = both.reshape(-1, *summed.shape).sum(axis=0)
        np.testing.assert_allclose(summed, rows, atol=1e-3 * abs(both).max())
        return
    columns = fr.host(matrix).reshape(-1, given["dens"].shape[-1] * 3)
    for found in (fr.hessian(loss), fr.jacrev(fr.jacrev(loss)), fr.jacfwd(fr.jacfwd(loss))):
        both = fr.host(found(value)).reshape(columns.shape[1], -1)
        # A device chooses other parameters for the transposed sum.
        np.testing.assert_allclose(both, 2 * columns.T @ columns, atol=1e-5 * abs(both).max())


@pytest.mark.pairwise
@pytest.mark.parametrize("same", [False, True], ids=["apart", "same"])
@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in ("laplace", "stokes_dl")))
        for name in (*SUMS, *(f"stokes_{name} near a wall" for name in ("sl", "dl", "dipole")))
    ],
)
def test_second_derivatives(fr, kernel, same):
    """Of a derivative along all inputs, in both modes, against differences of first ones."""
    kernel, _, walled = kernel.partition(" near a ")
    given, rng = fr.arrays(kernel, same=same, spaced=True), np.random.default_rng(1)
    given["box"] = fr.array(np.array(BOX))
    how = {"periodicity": 2, "wall": "no-slip"} if walled else {"periodicity": 3}
    call = fr.function(kernel, parki.EwaldOptions(**how, box=BOX, tolerance=1e-10))
    along = {name: fr.array(rng.standard_normal(a.shape)) for name, a in given.items()}

    slopes = fr.grad(lambda values: (call(values) ** 2).sum())
    found = fr.grad(lambda values: sum((s * along[n]).sum() for n, s in slopes(values).items()))
    step = 1e-5
    there, back = (
        slopes({n: a + sign * step * along[n] for n, a in given.items()}) for sign in (1, -1)
    )
    for name, curved in found(given).items():
        expected = (fr.host(there[name]) - fr.host(back[name])) / (2 * step)
        error = 1e-6 * abs(expected).max()
        np.testing.assert_allclose(fr.host(curved), expected, atol=error, err_msg=name)

    change = lambda values: fr.jvp(call, (values,), (along,))[1]  # noqa: E731
    found = fr.host(fr.jvp(change, (given,), (along,))[1])  # twice in forward mode
    there, back = (
        fr.host(change({n: a + sign * step * along[n] for n, a in given.items()}))
        for sign in (1, -1)
    )
    expected = (there - back) / (2 * step)
    np.testing.assert_allclose(found, expected, atol=1e-6 * abs(expected).max())


def test_second_derivatives_of_systems(fr):
    """Targets and sources change places in one of the sums, and so do their systems."""
    given, options = fr.arrays("laplace", targets=5), parki.EwaldOptions(3, BOX, 1e-9)
    offsets = {"systems": ([0, 2, 5], [0, 3, 5])}
    parts = fr.function("laplace", options)
    places = (slice(0, 2), slice(0, 3)), (slice(2, 5), slice(3, 5))

    def loss(src):
        points = given["trg"], src, given["dens"]
        return (fr.module.laplace(*points, options, **offsets) ** 2).sum()

    def apart(src):
        each = [
            parts({"trg": given["trg"][:, t], "src": src[:, s], "dens": given["dens"][s]})
            for t, s in places
        ]
        return sum((one**2).sum() for one in each)

    along = fr.array(np.random.default_rng(1).standard_normal(given["src"].shape))
    found, expected = (
        fr.host(fr.grad(lambda src, of=of: (fr.grad(of)(src) * along).sum())(given["src"]))
        for of in (loss, apart)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5 * abs(expected).max())


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.each
@pytest.mark.parametrize(
    ("kernel", "want"),
    [
        pytest.param(name, want, marks=() if name in USUAL else pytest.mark.slow)
        for name in SUMS
        for want in ("u", "grad_u")
        if want in SUMS[name].adjoints
    ],
)
def test_a_plan(fr, kernel, want):
    given, tolerance = fr.arrays(kernel), 1e-3
    if (kernel, want) == ("stokes_rotlet", "grad_u"):
        tolerance = 1e-6
    points = [each for name, each in given.items() if name != "dens"]
    plan = parki.Plan(kernel, *points, options=parki.EwaldOptions(2, BOX, tolerance), want=want)
    call = lambda dens: fr.module.apply(plan, dens)  # noqa: E731
    fr.check(call, [given["dens"]], order=2)
    near(fr, call(given["dens"]), plan(given["dens"]), 1e-12)


@pytest.mark.parametrize("boxes", [False, True])
def test_a_plan_of_other_points(fr, boxes):
    given = fr.arrays("stokes_sl")
    points, dens = (given["src"], given["src"]), given["dens"]
    of = {"systems": [0, 2, 5], "boxes": [[3 * edge for edge in BOX], [4, 4, 4]]} if boxes else {}
    options = parki.EwaldOptions(3, BOX, 1e-3)
    plan = parki.Plan("stokes_sl", *points, options, **of)
    call = lambda dens: fr.module.apply(plan, dens)  # noqa: E731
    fr.check(call, [dens])
    found, back = fr.vjp(call, dens)
    plan.update_points(*points)
    with pytest.raises(parki.ParkiValueError, match="the plan was given other points since"):
        back(found)
    with pytest.raises(parki.ParkiValueError, match=r"dens has shape \(3, 4\); expected \(3, 5\)"):
        call(given["trg"])
    many = parki.Plan("stokes_sl", *points, options, want=("u", "p"))
    with pytest.raises(parki.ParkiValueError, match=r"apply needs a plan with one result"):
        fr.module.apply(many, dens)


def test_many_systems(fr):
    """In boxes of their own: as one call for each system, with derivatives in both modes."""
    each, sizes = [inputs("stokes_dl", spaced=True, seed=seed) for seed in range(2)], (1, 3)
    for size, given in zip(sizes, each, strict=True):
        given |= {n: size * given[n] for n in ("trg", "src")}
    whole = {n: fr.array(np.concatenate([g[n] for g in each], axis=-1)) for n in each[0]}
    boxes = [[size * edge for edge in BOX] for size in sizes]
    trg, src = ([0, n, 2 * n] for n in (each[0][name].shape[1] for name in ("trg", "src")))
    how = {"options": parki.EwaldOptions(3, BOX, TOLERANCE), "systems": (trg, src), "boxes": boxes}
    call = lambda *given: fr.module.stokes_dl(*given, **how)  # noqa: E731
    fr.check(call, whole.values())
    found, slopes = fr.vjp(call, *whole.values())
    assert fr.on_device(found)
    weights = np.linspace(-1, 1, 24).reshape(3, 8)
    slopes, alone = slopes(fr.array(weights)), []
    for n, (given, box) in enumerate(zip(each, boxes, strict=True)):
        one = lambda *g, box=box: fr.module.stokes_dl(*g, parki.EwaldOptions(3, box, TOLERANCE))  # noqa: E731
        value, back = fr.vjp(one, *(fr.array(a) for a in given.values()))
        part = np.ascontiguousarray(weights[:, 4 * n : 4 * n + 4])
        alone.append([value, *back(fr.array(part))])
    for ours, *theirs in zip([found, *slopes], *alone, strict=True):
        expected = np.concatenate([fr.host(one) for one in theirs], axis=-1)
        np.testing.assert_allclose(fr.host(ours), expected, rtol=1e-4, atol=1e-4)
    near(fr, fr.compiled(call)(*whole.values()), found, 1e-12)


# --- energies -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("periodicity", "more"), [(3, {}), (2, {}), (3, {"kappa": 3.0}), (3, {"epsilon": 0.2})], ids=str
)
def test_energies(fr, periodicity, more):
    """Energy, forces, potentials and virial, by a strain, are those of the direct sum."""
    given = inputs("laplace", same=True)
    x, q, tilted = given["trg"].T, given["dens"], np.diag(BOX)
    tilted[1, 0] = 0.3
    options = {"periodicity": periodicity, "tolerance": 1e-8, **more}

    def energy(points, charges, strain):
        deformed = fr.array(np.eye(3)) + strain
        box = fr.array(tilted) @ deformed.T
        return fr.module.energy(points @ deformed.T, charges, box=box, **options)

    arrays = [fr.array(each) for each in (x, q, np.zeros((3, 3)))]
    expected = parki.energy(x, q, box=tilted, **options)
    if not more:
        u = direct_sum("laplace", x.T, x.T, q, box=tilted, periodicity=periodicity)
        near(fr, energy(*arrays), fr.array(0.5 * q @ u))
    within = tilted.tolist()
    plain = lambda x, q: fr.module.energy(x, q, box=within, **options)  # noqa: E731
    for value in (energy(*arrays), fr.compiled(plain)(*arrays[:2])):
        near(fr, value, fr.array(expected.energy))
    near(fr, fr.grad(lambda x: plain(x, arrays[1]))(arrays[0]), fr.array(-expected.forces))
    near(fr, fr.grad(lambda q: plain(arrays[0], q))(arrays[1]), fr.array(expected.potentials))
    slope = fr.grad(lambda strain: energy(*arrays[:2], strain))(arrays[2])
    free = slice(None) if periodicity == 3 else slice(2)  # free axes stay normal to the others
    near(fr, slope[free, free], fr.array(-expected.virial[free, free]))
    near(fr, slope[2, 2], fr.array(-expected.virial[2, 2]))


def test_energies_between_plates(fr):
    """Half of the potential, of images too, as in `parki.energy`."""
    given = inputs("laplace", same=True)
    x, q = fr.array(given["trg"]), fr.array(given["dens"])
    options = {"periodicity": 2, "box": BOX, "tolerance": 1e-8, "wall": ("metal", "metal")}
    expected = parki.energy(given["trg"], given["dens"], **options)
    call = lambda x: fr.module.energy(x, q, **options)  # noqa: E731
    near(fr, call(x), fr.array(expected.energy))
    near(fr, fr.grad(call)(x), fr.array(-expected.forces))


def test_energies_of_systems_and_what_is_refused(fr):
    given = inputs("laplace", same=True, sources=9)
    x, q = fr.array(given["trg"]), fr.array(given["dens"])
    boxes, systems = np.array([BOX, BOX[::-1], BOX]) * 1.1, [0, 4, 4, 9]
    options = {"periodicity": 3, "tolerance": 1e-8, "systems": systems, "boxes": boxes.tolist()}
    expected = parki.energy(given["trg"], given["dens"], **options)
    call = lambda x, q: fr.module.energy(x, q, **options)  # noqa: E731
    for run in (call, fr.compiled(call)):
        near(fr, run(x, q), fr.array(expected.energy))
    weights = fr.array(np.array([1.0, 2.0, -1.0]))
    slope = fr.grad(lambda x: (call(x, q) * weights).sum())(x)
    forces = expected.forces * np.repeat([1.0, 2.0, -1.0], np.diff(systems))
    near(fr, slope, fr.array(-forces))
    for words, points, charges, more in (
        (r"charges has shape \(2, 9\); expected \(9,\)", x, fr.stack([q, q]), {}),
        (r"points has shape \(3, 3\), whose rows or columns", x[:, :3], q[:3], {}),
        ("kappa was given, and epsilon as well", x, q, {"kappa": 1.0, "epsilon": 0.1}),
        ("epsilon is -0.1; expected the width", x, q, {"epsilon": -0.1}),
        ("systems differs for targets and sources", x, q, {"systems": ([0, 4, 9], [0, 5, 9])}),
    ):
        with pytest.raises(parki.ParkiValueError, match=words):
            fr.module.energy(points, charges, periodicity=3, box=BOX, **more)
    with pytest.raises(parki.ParkiTypeError, match="charges is a"):
        fr.module.energy(x, "text", periodicity=3, box=BOX)


# --- spheres --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("radii", "periodicity"),
    [(RADII, 0), *(pytest.param(of, 3, marks=pytest.mark.slow) for of in (0.1, RADII))],
)
def test_spheres(fr, radii, periodicity):
    """Velocities are those of `parki.Spheres`, and differentiable in both modes."""
    given = [fr.array(each) for each in suspension()]
    options = parki.EwaldOptions(periodicity, BOX, TOLERANCE)
    call = lambda x, f, t: fr.module.sphere_velocities(x, radii, f, t, options, viscosity=0.1)  # noqa: E731
    spheres = parki.Spheres(given[0], radii, options, viscosity=0.1)
    for found, expected in zip(call(*given), spheres.velocities(*given[1:]), strict=True):
        # On a device a plan, which keeps lists of pairs, has other parameters than a sum made once.
        near(fr, found, expected, 1e-6)
    fr.check(call, given)


def test_spheres_of_many_forces(fr):
    """With ten radii, without torques; options as keywords, mapped, and in compiled functions."""
    points, *forces = (fr.array(each) for each in suspension(10, 0.2))
    options, radii = {"periodicity": 3, "box": BOX, "tolerance": 1e-4}, TEN.tolist()
    call = lambda x, f: fr.module.sphere_velocities(x, radii, f, **options)  # noqa: E731
    many, spheres = fr.stack(forces), parki.Spheres(points, TEN, **options)
    near(fr, call(points, many), spheres.velocities(many), 1e-4)
    near(fr, fr.vmap(lambda f: call(points, f))(many), call(points, many), 1e-9)
    slope = fr.grad(lambda x: (call(x, forces[0]) ** 2).sum())
    near(fr, fr.compiled(slope)(points), slope(points), 1e-7)
    weights = 2 * call(points, forces[0])
    expected = spheres.vjp(forces[0], values=weights, wrt=("points",))["points"]
    near(fr, slope(points), expected, 1e-4)


# --- refusals -------------------------------------------------------------------------------------


def test_spheres_that_are_refused(fr):
    points, forces, torques = (fr.array(each) for each in suspension())
    options, call = parki.EwaldOptions(0, BOX, 1e-3), fr.module.sphere_velocities
    two = lambda array: fr.stack([array, array])  # noqa: E731
    with pytest.raises(parki.ParkiTypeError, match="forces and torques are None"):
        call(points, 0.1, None, options)
    for words, given in (
        (r"points has shape \(2, 3, 5\); expected \(3, N", (two(points), 0.1, two(forces))),
        (r"forces has shape \(3, 4\); expected", (points, RADII, forces[:, :4])),
        ("forces and torques have the shapes", (points, RADII, forces, two(torques))),
    ):
        with pytest.raises(parki.ParkiValueError, match=words):
            call(*given, options=options)
    with pytest.raises(parki.ParkiValueError, match="viscosity is 0"):
        call(points, RADII, forces, options, viscosity=0)
    of_radii = fr.grad(lambda radii: call(points, radii, forces, options).sum())
    with pytest.raises(parki.ParkiTypeError, match=fr.constant):
        of_radii(fr.array(np.full(5, 0.1)))


def test_arguments(fr):
    given = fr.arrays("stokes_sl")
    points, dens = given["src"], given["dens"]
    options, (sl, dl) = parki.EwaldOptions(3, BOX, 1e-2), (fr.module.stokes_sl, fr.module.stokes_dl)
    near(fr, sl(points, points, dens, None, options), sl(points, points, dens, options), 1e-15)
    for words, call in (
        ("options is a NoneType; expected EwaldOptions", lambda: sl(points, points, dens)),
        (
            "norms was given, but stokes_sl has no",
            lambda: sl(points, points, dens, points, options),
        ),
        ("norms is missing; stokes_dl needs", lambda: dl(points, points, dens, options)),
        (r"plan is a int; expected parki\.Plan", lambda: fr.module.apply(3, dens)),
    ):
        with pytest.raises(parki.ParkiTypeError, match=words):
            call()


def test_parki_itself_takes_arrays_without_derivatives(fr):
    """It returns those of the library, where they are, and names the module that has slopes."""
    given = fr.arrays("stokes_sl")
    call = lambda dens: parki.stokes_sl(given["trg"], given["src"], dens, periodicity=3, box=BOX)  # noqa: E731
    found = call(given["dens"])
    assert type(found) is type(given["dens"]) and fr.on_device(found)
    near(fr, found, fr.function("stokes_sl", parki.EwaldOptions(3, BOX))(given), 1e-12)
    with pytest.raises(parki.ParkiTypeError, match=fr.no_values):
        fr.grad(lambda dens: call(dens).sum())(given["dens"])


def test_every_sum_is_there(fr):
    assert {name for name in SUMS if "(" not in name} <= {*fr.module.__all__}
