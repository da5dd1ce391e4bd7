"""`parki.jax`: derivatives by JAX's own checks, within its transformations, and on devices."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from contract import call_of
from few import FEW
from frameworks import BOX, PERIODICITIES, RADII, TEN, inputs, suspension

import parki
from parki.runtime.spaces import why_unavailable

jax = pytest.importorskip("jax", reason="JAX is not installed")
from jax import numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import parki.jax  # noqa: E402  (which needs it)

TOLERANCE, CHECK = 1e-6, {"eps": 1e-4, "atol": 1e-3, "rtol": 1e-4}


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


DEVICES = ["cpu"]
if jax.default_backend() == "gpu" and not why_unavailable("Cuda"):
    DEVICES.append(pytest.param("gpu", marks=pytest.mark.gpu))


@pytest.fixture(params=DEVICES)
def device(request):
    found = jax.devices(request.param)[0]
    with jax.default_device(found):  # JAX's checks make arrays of their own
        yield found


def arrays(kernel, device=None, dtype="f8", **more):
    """Return the inputs of a sum as arrays of JAX, by name."""
    given = inputs(kernel, **more).items()
    return {name: jax.device_put(array.astype(dtype), device) for name, array in given}


def function(kernel, options):
    """Return the sum as a function of arrays: targets are sources where there are none."""

    def call(given):
        trg = given["trg"]
        norms = [given["norms"]] if "norms" in given else []
        arguments = trg, given.get("src", trg), given["dens"], *norms
        return call_of(parki.jax, kernel)(*arguments, options)

    return call


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.each
@pytest.mark.parametrize("periodicity", PERIODICITIES)
@pytest.mark.parametrize("kernel", FEW)
def test_check_grads(kernel, periodicity, device):
    """In forward and in reverse mode."""
    # Differences of sums are of their errors, too, which change faster with polynomials in r.
    tolerance = TOLERANCE / 10 if kernel.startswith("yukawa") else TOLERANCE
    call = function(kernel, parki.EwaldOptions(periodicity, BOX, tolerance))
    check_grads(call, (arrays(kernel, device, spaced=True),), order=1, **CHECK)


def test_values_of_numpy(device):
    """They follow the other arrays to their device, as JAX's own functions have it."""
    given = arrays("stokes_sl", device)
    call = function("stokes_sl", parki.EwaldOptions(3, BOX, TOLERANCE))
    u, back = jax.vjp(call, given)
    values = np.ones(u.shape)
    for name, found in back(values)[0].items():
        assert isinstance(found, jax.Array) and found.devices() == {device}
        np.testing.assert_allclose(found, back(jax.device_put(values, device))[0][name])


@pytest.mark.parametrize("kernel", FEW)
def test_targets_that_are_sources_within_jit(kernel, device):
    call = jax.jit(function(kernel, parki.EwaldOptions(3, BOX, TOLERANCE)))
    check_grads(call, (arrays(kernel, device, same=True, spaced=True),), order=1, **CHECK)


@pytest.mark.parametrize("kernel", ["laplace", "stokes_comb"])
def test_second_derivatives_by_densities(kernel, device):
    given = arrays(kernel, device)
    call = function(kernel, parki.EwaldOptions(3, BOX, TOLERANCE))
    by_density = lambda dens: call({**given, "dens": dens}) ** 2  # noqa: E731
    check_grads(by_density, (given["dens"],), order=2, **CHECK)


def test_other_second_derivatives_are_refused():
    given = arrays("stokes_dl")
    call = function("stokes_dl", parki.EwaldOptions(3, BOX, 1e-4))

    def loss(given):
        return (call(given) ** 2).sum()

    for name in ("trg", "src", "norms"):
        one = lambda value, name=name: loss({**given, name: value})  # noqa: E731
        with pytest.raises(parki.ParkiTypeError, match=f"a second derivative by .*{name}"):
            jax.grad(lambda value, one=one: jax.grad(one)(value).sum())(given[name])
    by_trg = jax.grad(
        lambda dens: jax.grad(lambda x: loss({**given, "trg": x, "dens": dens}))(given["trg"]).sum()
    )
    with pytest.raises(parki.ParkiTypeError, match=r"by dens was .* by trg; .* densities alone"):
        by_trg(given["dens"])
    # That by densities is there, whatever else could have one.
    twice = jax.grad(lambda dens: jax.grad(lambda d: loss({**given, "dens": d}))(dens).sum())
    assert jnp.isfinite(twice(given["dens"])).all()


@pytest.mark.parametrize("kernel", FEW)
def test_the_values_are_those_of_parki(kernel, device):
    given = arrays(kernel, device, "f4")
    options = parki.EwaldOptions(1, BOX, 1e-4)
    expected = call_of(parki, kernel)(*given.values(), options)
    for call in (function(kernel, options), jax.jit(function(kernel, options))):
        found = call(given)
        assert found.dtype == np.float32 and found.devices() == {device}
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


# --- vmap -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", FEW)
def test_vmap(kernel, device):
    given = arrays(kernel, device)
    call = function(kernel, parki.EwaldOptions(2, BOX, 1e-6))
    dens = jnp.stack([given["dens"], 2 * given["dens"]])
    by_density = lambda dens: call({**given, "dens": dens})  # noqa: E731
    for mapped in (jax.vmap(by_density), jax.jit(jax.vmap(by_density))):
        found = mapped(dens)
        np.testing.assert_allclose(found[1], 2 * found[0], rtol=1e-9)
        np.testing.assert_allclose(found[0], by_density(dens[0]), rtol=1e-6, atol=1e-6)
    last = jax.vmap(by_density, in_axes=-1, out_axes=-1)(jnp.moveaxis(dens, 0, -1))
    np.testing.assert_allclose(last[..., 1], 2 * last[..., 0], rtol=1e-9)
    # Two axes at once, the derivatives, and points that are mapped.
    twice = jax.vmap(jax.vmap(by_density))(jnp.stack([dens, dens]))
    np.testing.assert_allclose(twice[1, 1], found[1], rtol=1e-6, atol=1e-6)
    slope = jax.vmap(jax.grad(lambda d: (by_density(d) ** 2).sum()))(dens)
    np.testing.assert_allclose(slope[1], 2 * slope[0], rtol=1e-6)
    moved = jnp.stack([given["trg"], given["trg"][:, ::-1]])
    found = jax.vmap(lambda trg: call({**given, "trg": trg}))(moved)
    np.testing.assert_allclose(found[1], found[0][..., ::-1], rtol=1e-6, atol=1e-6)
    both = jax.jit(jax.vmap(jax.grad(lambda t, d: (call({**given, "trg": t, "dens": d})).sum())))
    pull = both(moved, dens)
    np.testing.assert_allclose(pull[1], 2 * pull[0][:, ::-1], rtol=1e-6, atol=1e-6)


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", FEW)
def test_a_plan(kernel, device):
    given = arrays(kernel, device)
    points = [each for name, each in given.items() if name != "dens"]
    plan = parki.Plan(kernel, *points, options=parki.EwaldOptions(2, BOX, 1e-3))
    call = jax.jit(lambda dens: parki.jax.apply(plan, dens))
    check_grads(call, (given["dens"],), order=2, **CHECK)
    np.testing.assert_allclose(call(given["dens"]), plan(given["dens"]), rtol=1e-12)
    many = jax.vmap(call)(jnp.stack([given["dens"], -given["dens"]]))
    np.testing.assert_allclose(many[0], -many[1], rtol=1e-9)


def test_a_plan_of_other_points():
    given = arrays("stokes_sl")
    plan = parki.Plan("stokes_sl", given["trg"], given["src"], parki.EwaldOptions(3, BOX, 1e-3))
    _, back = jax.vjp(lambda dens: parki.jax.apply(plan, dens), given["dens"])
    plan.update_points(given["trg"], given["src"])
    with pytest.raises(parki.ParkiValueError, match="the plan was given other points since"):
        back(jnp.ones((3, 4)))
    with pytest.raises(parki.ParkiValueError, match=r"dens has shape \(3, 4\); expected \(3, 5\)"):
        parki.jax.apply(plan, given["trg"])


# --- many systems ---------------------------------------------------------------------------------


def test_many_systems(device):
    """In boxes of their own, within jit: as one call for each system."""
    given = arrays("stokes_sl", device, spaced=True)
    trg, src, dens = given["trg"], given["src"], given["dens"]
    boxes = [[size * edge for edge in BOX] for size in (1, 3)]
    how = {"periodicity": 3, "tolerance": TOLERANCE}
    offsets = [0, 4, 8], [0, 5, 10]

    @jax.jit
    def call(trg, src, dens):
        both = (jnp.hstack([each, size * each]) for each, size in ((trg, 3), (src, 3), (dens, 1)))
        return parki.jax.stokes_sl(*both, systems=offsets, boxes=boxes, **how)

    check_grads(call, (trg, src, dens), order=1, **CHECK)
    found = call(trg, src, dens)
    for n, box in enumerate(boxes):
        alone = parki.jax.stokes_sl((1, 3)[n] * trg, (1, 3)[n] * src, dens, box=box, **how)
        np.testing.assert_allclose(found[:, 4 * n : 4 * n + 4], alone, rtol=0, atol=1e-4)
    with pytest.raises(parki.ParkiTypeError, match="boxes has no values within a transformation"):
        jax.jit(
            lambda boxes: parki.jax.stokes_sl(trg, src, dens, systems=offsets, boxes=boxes, **how)
        )(jnp.array(boxes))


# --- spheres --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("radii", "periodicity"),
    [(RADII, 0), *(pytest.param(of, 3, marks=pytest.mark.slow) for of in (0.1, RADII))],
)
def test_spheres(radii, periodicity, device):
    """Velocities are those of `parki.Spheres`, and differentiable in both modes, within jit."""
    given = [jax.device_put(each, device) for each in suspension()]
    options = parki.EwaldOptions(periodicity, BOX, TOLERANCE)
    call = jax.jit(
        lambda x, f, t: parki.jax.sphere_velocities(x, radii, f, t, options, viscosity=0.1)
    )
    spheres = parki.Spheres(given[0], radii, options, viscosity=0.1)
    for found, expected in zip(call(*given), spheres.velocities(*given[1:]), strict=True):
        # On a device a plan, which keeps lists of pairs, has other parameters than a sum made once.
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * abs(expected).max())
    check_grads(call, given, order=1, **CHECK)


def test_spheres_of_many_forces(device):
    """With ten radii, without torques; options as keywords, mapped over forces."""
    points, *forces = (jax.device_put(each, device) for each in suspension(10, 0.2))
    options = {"periodicity": 3, "box": BOX, "tolerance": 1e-4}
    many, spheres = jnp.stack(forces), parki.Spheres(points, TEN, **options)
    call = lambda f: parki.jax.sphere_velocities(points, TEN, f, **options)  # noqa: E731
    exact = spheres.velocities(many)
    np.testing.assert_allclose(call(many), exact, rtol=0, atol=1e-4 * abs(exact).max())
    np.testing.assert_allclose(jax.vmap(call)(many), call(many), rtol=1e-9)
    with pytest.raises(parki.ParkiTypeError, match="forces and torques are None"):
        call(None)
    with pytest.raises(parki.ParkiValueError, match=r"forces has shape \(3, 4\); expected"):
        call(forces[0][:, :4])
    with pytest.raises(
        parki.ParkiTypeError, match="radii has no values within a transformation of JAX"
    ):
        jax.grad(lambda a: parki.jax.sphere_velocities(points, a, many, **options).sum())(0.1)


# --- errors ---------------------------------------------------------------------------------------


def test_impossible_shapes_and_types_are_refused_when_traced():
    given = arrays("stokes_sl")
    call = jax.jit(function("stokes_sl", parki.EwaldOptions(3, BOX, 1e-4)))
    with pytest.raises(parki.ParkiValueError, match=r"dens has shape \(3, 4\); expected \(3, 5\)"):
        call({**given, "dens": given["trg"]})
    with pytest.raises(parki.ParkiTypeError, match="dens has dtype float32, but trg has float64"):
        call({**given, "dens": given["dens"].astype("f4")})


def test_impossible_values_are_refused_within_jit():
    """XLA passes on the words of parki."""
    given = arrays("stokes_sl")
    call = jax.jit(function("stokes_sl", parki.EwaldOptions(0, BOX, 1e-4)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="dens contains NaN or infinity"):
        call({**given, "dens": given["dens"].at[0, 0].set(np.nan)}).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match="trg reaches from"):
        call({**given, "trg": 9 * given["trg"]}).block_until_ready()


def test_parki_itself_names_the_module():
    given = arrays("stokes_sl")
    options = parki.EwaldOptions(3, BOX, 1e-4)
    plain = jax.jit(lambda dens: parki.stokes_sl(given["trg"], given["src"], dens, options))
    with pytest.raises(parki.ParkiTypeError, match=r"dens has no values within .* parki\.jax"):
        plain(given["dens"])


def test_parki_does_not_import_it():
    program = "import sys, parki.jax; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


# --- many devices, other processes ----------------------------------------------------------------

SHARDED = """
import numpy as np, pytest, jax, parki, parki.jax
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_enable_x64", True)
options = parki.EwaldOptions(3, [1, 1, 1], 1e-3)
rng = np.random.default_rng(0)
points, dens = jnp.asarray(rng.random((3, 20))), jnp.asarray(rng.standard_normal((2, 3, 20)))
mesh = Mesh(np.array(jax.devices()), ("a",))
assert len(jax.devices()) == 2
plan = parki.Plan("stokes_sl", points, points, options)


def call(x, f):
    return parki.jax.stokes_sl(x, x, f[0], options)[None]


def mapped(function, specs, out=P("a")):
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out)


def slopes(x, f):
    return jax.grad(lambda x: jnp.sin(call(x, f)).sum())(x)[None]


def by_density(f):
    return jax.grad(lambda f: jnp.sin(call(points, f)).sum())(f)


both = P(), P("a")
one = [np.asarray(call(points, f[None]))[0] for f in dens]
for how in (lambda f: f, jax.jit):
    for function, given, specs in (
        (call, (points, dens), both),
        (lambda f: call(points, f), (dens,), P("a")),
        (lambda f: parki.jax.apply(plan, f), (dens,), P("a")),
    ):
        found = np.asarray(how(mapped(function, specs))(*given))
        np.testing.assert_allclose(found, np.stack(one), atol=1e-2)
found = np.asarray(jax.jit(mapped(by_density, P("a")))(dens))
expected = np.stack([np.asarray(by_density(f[None]))[0] for f in dens])
np.testing.assert_allclose(found, expected, atol=1e-2)
# JAX adds up derivatives by what all devices have.
found = np.asarray(jax.jit(mapped(slopes, both))(points, dens))
expected = sum(np.asarray(slopes(points, f[None]))[0] for f in dens)
for each in found:
    np.testing.assert_allclose(each, expected, rtol=1e-3, atol=1e-2)
# What varies is not taken for what does not.
with pytest.raises(ValueError, match="out_specs"):
    mapped(lambda f: call(points, f), P("a"), P())(dens)

spread = jax.device_put(dens[0], NamedSharding(mesh, P(None, "a")))
for attempt in (
    lambda: parki.stokes_sl(points, points, spread, options),
    lambda: plan(spread),
    lambda: parki.jax.apply(plan, spread),
):
    with pytest.raises(parki.ParkiTypeError, match="dens is a .* that DLPack does not hand over"):
        attempt()
print("all is well")
"""


def test_many_devices():
    """Within `jax.shard_map`, whose checks see what varies; sharded arrays are refused."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SHARDED],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **flags},
    )
    assert run.stdout.splitlines()[-1:] == ["all is well"], run.stderr[-3000:]


def test_exports_are_refused():
    from jax import export

    given = arrays("stokes_sl")
    options = parki.EwaldOptions(3, BOX, 1e-3)
    plan = parki.Plan("stokes_sl", given["trg"], given["src"], options)
    call = function("stokes_sl", options)
    for one in (
        lambda dens: call({**given, "dens": dens}),
        lambda dens: parki.jax.apply(plan, dens),
        jax.grad(lambda dens: call({**given, "dens": dens}).sum()),
    ):
        with pytest.raises(parki.ParkiTypeError, match=r"cannot be exported by jax\.export"):
            export.export(jax.jit(one))(given["dens"])


def test_deleted_arrays_are_refused():
    given = arrays("stokes_sl")
    given["dens"].delete()
    for call in (parki.stokes_sl, parki.jax.stokes_sl):
        with pytest.raises(parki.ParkiTypeError, match=r"dens is a .* DLPack does not hand over"):
            call(*given.values(), parki.EwaldOptions(3, BOX, 1e-3))


def test_arguments():
    given = arrays("stokes_sl")
    trg, src, dens = given.values()
    options = parki.EwaldOptions(3, BOX, 1e-3)
    sl, dl = parki.jax.stokes_sl, parki.jax.stokes_dl
    expected = sl(trg, src, dens, options)
    np.testing.assert_array_equal(sl(trg, src, dens, None, options), expected)
    for message, call in (
        ("options is a NoneType; expected EwaldOptions", lambda dens: sl(trg, src, dens)),
        ("norms was given, but stokes_sl has no", lambda dens: sl(trg, src, dens, src, options)),
        ("norms is missing; stokes_dl needs", lambda dens: dl(trg, src, dens, None, options)),
        (
            "trg has dtype int64; expected float32",
            lambda dens: sl(*(3 * [dens.astype(int)]), options),
        ),
        ("dens is a NoneType; expected an array", lambda dens: sl(trg, src, None, options)),
        ("dens is a str; expected an array", lambda dens: sl(trg, src, "dens", options)),
        (
            "dens is a masked array; pass filled",
            lambda dens: sl(trg, src, np.ma.ones((3, 5)), options),
        ),
        (r"plan is a int; expected parki\.Plan", lambda dens: parki.jax.apply(3, dens)),
    ):
        for how in (call, jax.jit(call)):
            with pytest.raises(parki.ParkiTypeError, match=message):
                how(dens)


def test_options_are_constants():
    given = arrays("laplace")
    for name, value in (("box", np.array(BOX)), ("tolerance", 1e-3), ("cutoff", 0.3)):

        def call(value, name=name):
            options = parki.EwaldOptions(**({"periodicity": 3, "box": BOX} | {name: value}))
            return parki.jax.laplace(*given.values(), options).sum()

        message = f"{name} has no values within .* JAX .*, but options are constants"
        with pytest.raises(parki.ParkiTypeError, match=message):
            jax.grad(call)(value)
