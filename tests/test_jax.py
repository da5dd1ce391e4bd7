"""`parki.jax` alone: shards, exports, what is traced; tests/test_frameworks.py has the rest."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from adapters import Jax
from frameworks import BOX, inputs

import parki
from parki.ewald.pipeline.ewald_sum import EwaldSum
from parki.runtime.spaces import why_unavailable

jax = pytest.importorskip("jax", reason="JAX is not installed")

import parki.jax  # noqa: E402  (which needs it)

TOLERANCE = 1e-6


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


DEVICES = ["cpu"]
if jax.default_backend() == "gpu" and not why_unavailable("Cuda"):
    DEVICES.append(pytest.param("gpu", marks=pytest.mark.gpu))


function = Jax("cpu").function


@pytest.fixture(params=DEVICES)
def device(request):
    found = jax.devices(request.param)[0]
    with jax.default_device(found):  # JAX's checks make arrays of their own
        yield found


def arrays(kernel, device=None, dtype="f8", **more):
    """Return the inputs of a sum as arrays of JAX, by name."""
    given = inputs(kernel, **more).items()
    return {name: jax.device_put(array.astype(dtype), device) for name, array in given}


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["forces", "stress"])
def test_steps_of_training_are_two_sums(of, monkeypatch):
    """Slopes of an energy, and all derivatives of a loss on these, which differences confirm."""
    placed, place = [], EwaldSum.place
    monkeypatch.setattr(EwaldSum, "place", lambda *a, **k: placed.append(1) or place(*a, **k))
    given = inputs("laplace", same=True, spaced=True)
    points, charges = given["trg"], given["dens"]
    options = parki.EwaldOptions(3, BOX, 1e-10)

    def energy(strain, points, charges):
        deformed = np.eye(3) + (strain + strain.T) / 2
        moved, box = deformed @ points, np.diag(BOX) @ deformed
        how = {"box": box} if of == "stress" else {}
        return (parki.jax.laplace(moved, moved, charges, options, **how) * charges).sum()

    def loss(points, charges):
        slope = jax.grad(energy, argnums=0 if of == "stress" else 1)
        return (slope(np.zeros((3, 3)), points, charges) ** 2).sum()

    loss = jax.jit(loss)
    found = jax.jit(jax.grad(loss, argnums=(0, 1)))(points, charges)
    jax.block_until_ready(found)
    assert len(placed) == 2
    rng, step = np.random.default_rng(1), 1e-5
    for n, along in enumerate((rng.standard_normal((3, 5)), rng.standard_normal(5))):
        moved = [[points, charges], [points, charges]]
        for at, sign in zip(moved, (1, -1), strict=True):
            at[n] = at[n] + sign * step * along
        expected = (loss(*moved[0]) - loss(*moved[1])) / (2 * step)
        np.testing.assert_allclose((found[n] * along).sum(), expected, rtol=1e-6)


def test_values_of_numpy(device):
    """They follow the other arrays to their device, as JAX's own functions have it."""
    given = arrays("stokes_sl", device)
    call = function("stokes_sl", parki.EwaldOptions(3, BOX, TOLERANCE))
    u, back = jax.vjp(call, given)
    values = np.ones(u.shape)
    for name, found in back(values)[0].items():
        assert isinstance(found, jax.Array) and found.devices() == {device}
        np.testing.assert_allclose(found, back(jax.device_put(values, device))[0][name])


# --- errors ---------------------------------------------------------------------------------------


def test_what_is_impossible_is_refused_within_jit():
    """Shapes and types are known when traced; of values XLA passes on the words of parki."""
    given = arrays("stokes_sl")
    call = jax.jit(function("stokes_sl", parki.EwaldOptions(0, BOX, 1e-4)))
    refused = jax.errors.JaxRuntimeError
    for kind, words, name, value in (
        (
            parki.ParkiValueError,
            r"dens has shape \(3, 4\); expected \(3, 5\)",
            "dens",
            given["trg"],
        ),
        (parki.ParkiTypeError, "dens has dtype float32, but", "dens", given["dens"].astype("f4")),
        (refused, "dens contains NaN or in", "dens", given["dens"].at[0, 0].set(np.nan)),
        (refused, "trg reaches from", "trg", 9 * given["trg"]),
    ):
        with pytest.raises(kind, match=words):
            call({**given, name: value}).block_until_ready()


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ("tolerance is 1e-09, but float32 holds 1e-06 at best", {"tolerance": 1e-9}),
        ("for densities='any'.* of 5 sources", {"tolerance": 1e-6, "densities": "any"}),
        ("precision is 'mixed', but the arrays have", {"precision": "mixed"}),
        ("14; float32 holds at most 12", {"expert": parki.Expert(window_points=14)}),
        ("laplace.* wall", {"wall": "no-slip", "periodicity": 2}),
        ("systems has 3 offsets of targets, 0 to 5; expected", {"systems": [0, 2, 5]}),
        ("boxes was given without systems", {"boxes": [BOX]}),
    ],
)
def test_what_tracing_knows_is_refused_while_tracing(words, how):
    """It was an internal error of XLA, when the compiled function ran."""
    trg, src, dens = arrays("laplace", dtype="f4").values()
    how = {"periodicity": 3, "box": BOX, "tolerance": 1e-3, **how}
    with pytest.raises(parki.ParkiValueError, match=words):
        jax.jit(lambda dens: parki.jax.laplace(trg, src, dens, **how)).lower(dens)


# --- many devices, other processes ----------------------------------------------------------------

SHARDED = """
import sys, numpy as np, pytest, jax, parki, parki.jax
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

# Results are where the inputs are, which may be on another device than the first.
last = jax.devices()[1]
x, f = (jax.device_put(each, last) for each in (points, dens[0]))
on_last = lambda x: (parki.jax.stokes_sl(x, x, f, options) * f).sum()
spheres = lambda x: (parki.jax.sphere_velocities(x, [0.1, 0.2] * 10, f, options) * f).sum()
for found in (
    parki.stokes_sl(x, x, f, options),
    plan(f),
    parki.jax.apply(plan, f),
    *(how(of)(x) for how in (lambda of: of, jax.jit) for of in (on_last, spheres)),
    *(how(jax.grad(of))(x) for how in (lambda of: of, jax.jit) for of in (on_last, spheres)),
    jax.grad(lambda f: parki.jax.apply(plan, f).sum())(f),
    jax.grad(lambda f: parki.jax.stokes_sl(x, x, f, options).sum())(f),
    jax.hessian(on_last)(x[:, :2].repeat(10, axis=1)),
    parki.jax.stokes_sl(points, points, f, options),
):
    assert found.devices() == {last}
np.testing.assert_allclose(
    parki.jax.stokes_sl(points, points, f, options),
    parki.jax.stokes_sl(points, points, dens[0], options),
)
with pytest.raises(parki.ParkiValueError, match="arrays are on cpu:0 and on cpu:1; move them to"):
    parki.jax.stokes_sl(jax.device_put(points, jax.devices()[0]), x, f, options)

spread = jax.device_put(dens[0], NamedSharding(mesh, P(None, "a")))
for attempt in (
    lambda: parki.stokes_sl(points, points, spread, options),
    lambda: plan(spread),
    lambda: parki.jax.apply(plan, spread),
):
    with pytest.raises(parki.ParkiTypeError, match="dens is a .* that DLPack does not hand over"):
        attempt()
assert "torch" not in sys.modules
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
    sl = parki.jax.stokes_sl
    for message, call in (
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
    ):
        for how in (call, jax.jit(call)):
            with pytest.raises(parki.ParkiTypeError, match=message):
                how(dens)


def test_options_are_constants():
    trg, src, dens = arrays("stokes_sl").values()
    message = "{} has no values within .* JAX .*, but options are constants"
    for name, value in (("box", np.array(BOX)), ("tolerance", 1e-3), ("cutoff", 0.3)):

        def call(value, name=name):
            options = parki.EwaldOptions(**({"periodicity": 3, "box": BOX} | {name: value}))
            return parki.jax.stokes_sl(trg, src, dens, options).sum()

        with pytest.raises(parki.ParkiTypeError, match=message.format(name)):
            jax.grad(call)(value)
    how = {"boxes": [BOX, BOX], "tolerance": 1e-2}
    for name, value in (("systems", np.array([0, 2, 5])), ("periodicities", np.array([3, 3]))):

        def batch(value, name=name):
            given = {"systems": [0, 2, 5], "periodicities": [3, 3]} | {name: value}
            return parki.jax.stokes_sl(src, src, dens, **given, **how)

        with pytest.raises(parki.ParkiTypeError, match=message.format(name)):
            jax.jit(batch)(value)
