"""Derivatives by the boxes of many systems, and by boxes of PyTorch and JAX."""

from __future__ import annotations

import numpy as np
import pytest
from frameworks import difference

import parki
from parki.ewald.sums import SUMS


@pytest.mark.parametrize(
    ("kernel", "wrt"),
    [("laplace", ("box", "trg")), ("stokes_dipole", ("lattice",)), ("laplace", ("box", "dens"))],
)
def test_each_box_of_many_systems(kernel, wrt, rng):
    """As of each alone: a tilted box, one that others are shorter than, and two equal ones."""
    boxes = [np.eye(3), parki.lattice(1.1, 0.9, 1.2, 0.5, -0.4, 0.4)[[1, 2, 0]], 1.2 * np.eye(3)]
    boxes += [np.array([[1, 0, 0], [3, 0.9, 0], [0.2, 0.3, 1.1]]), np.eye(3)]
    if "dens" in wrt:  # lengths
        boxes = [[1, 1.1, 0.9], [1, 1, 1], [1, 1.1, 0.9], [0.9, 1.2, 1], [1, 1, 1]]
    vectors = [box if np.ndim(box[0]) else np.diag(box) for box in boxes]
    points = np.hstack([(rng.random((6, 3)) @ box).T for box in vectors])
    dens = rng.standard_normal(SUMS[kernel].density_shape(30))
    values = rng.standard_normal(SUMS[kernel].value_shape(30))
    how, offsets = {"periodicity": 3, "tolerance": 1e-8}, np.arange(6) * 6
    found = parki.vjp(
        *(kernel, points, points, dens),
        **{"values": values, "wrt": wrt, "systems": offsets, "boxes": boxes, **how},
    )
    for n, box in enumerate(boxes):
        of = slice(6 * n, 6 * n + 6)
        own = points[:, of], points[:, of], dens[..., of]
        alone = parki.vjp(kernel, *own, values=values[..., of], wrt=wrt, box=box, **how)
        for name in wrt:
            one = found[name][n] if name in ("box", "lattice") else found[name][..., of]
            if one.shape != alone[name].shape:  # a box along the axes, among others
                one = one.diagonal()
            np.testing.assert_allclose(one, alone[name], atol=2e-6 * abs(alone[name]).max())


def test_systems_leave_their_own_pairs_out(rng):
    """As of each alone, also where another image of a pair is nearly as near."""
    box, labels = parki.lattice(1.0, 1.2, 1.1, xy=0.3), np.arange(12) % 3
    halves = rng.random((3, 2, 3)) * np.array([1.0, 1.2, 1.1])[:, None, None]
    others = halves + np.array([0.4, 0.0, 0.49 * 1.1])[:, None, None]
    x = np.concatenate([halves, others], axis=2).reshape(3, 12)
    dens, values = rng.standard_normal((2, 12))
    how = {"periodicity": 3, "box": box, "tolerance": 1e-8, "wrt": ("lattice",)}
    how["exclude_image"] = "nearest"
    more = {"systems": [0, 6, 12], "exclude": labels, "values": values}
    found = parki.vjp("laplace", x, x.copy(), dens, **more, **how)["lattice"]
    total = np.zeros((3, 3))
    for of in (slice(0, 6), slice(6, 12)):
        own = {"values": values[of], "exclude": labels[of]}
        src = x[:, of].copy()
        total += parki.vjp("laplace", x[:, of], src, dens[of], **own, **how)["lattice"]
    np.testing.assert_allclose(found, total, atol=1e-6 * abs(total).max(), rtol=0)


def test_tensor_of_boxes():
    """Its gradient, and that of points and charges, are those of the energies of each system."""
    torch = pytest.importorskip("torch")
    import parki.torch

    rng = np.random.default_rng(3)
    rows = np.array([np.eye(3) + 0.1 * rng.uniform(-1, 1, (3, 3)) for _ in range(3)])
    points = np.hstack([(rng.random((6, 3)) @ box).T for box in rows])
    charges, how = rng.standard_normal(18), {"periodicity": 3, "tolerance": 1e-8}
    x, q, boxes = (torch.tensor(a, requires_grad=True) for a in (points, charges, rows))
    offsets = [0, 6, 12, 18]
    (0.5 * q * parki.torch.laplace(x, x, q, systems=offsets, boxes=boxes, **how)).sum().backward()
    for n, box in enumerate(rows):
        of = slice(6 * n, 6 * n + 6)
        exact = parki.energy(points[:, of], charges[of], rows=False, box=box, **how)
        strains = exact.forces @ points[:, of].T - exact.virial  # of the box alone
        right = np.linalg.inv(box).T @ strains.T
        np.testing.assert_allclose(boxes.grad[n], right, atol=1e-6 * abs(right).max())
        np.testing.assert_allclose(x.grad[:, of], -exact.forces, atol=1e-6)
        np.testing.assert_allclose(q.grad[of], exact.potentials, atol=1e-6)


def test_compiled_functions_of_boxes():
    """One graph serves all boxes, with their gradients."""
    torch = pytest.importorskip("torch")
    from torch._dynamo.testing import CompileCounterWithBackend

    import parki.torch

    rng, counter = np.random.default_rng(3), CompileCounterWithBackend("aot_eager")
    charges = torch.tensor(rng.standard_normal(12))

    def energy(x, boxes):
        how = {"periodicity": 3, "tolerance": 1e-8, "systems": [0, 6, 12], "boxes": boxes}
        return (0.5 * charges * parki.torch.laplace(x, x, charges, **how)).sum()

    compiled = torch.compile(energy, backend=counter, fullgraph=True)
    for _ in range(3):
        rows = np.array([np.eye(3) + 0.1 * rng.uniform(-1, 1, (3, 3)) for _ in range(2)])
        points = np.hstack([(rng.random((6, 3)) @ box).T for box in rows])
        found = []
        for function in (energy, compiled):
            x, boxes = (torch.tensor(a, requires_grad=True) for a in (points, rows))
            function(x, boxes).backward()
            found.append((x.grad, boxes.grad))
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    assert counter.frame_count == 1


def test_systems(rng):
    """They add up in one box."""
    points, (dens, values) = rng.random((3, 9)), rng.standard_normal((2, 9))
    options, (whole, *parts) = parki.EwaldOptions(3, [1, 1, 1]), (slice(9), slice(4), slice(4, 9))

    def by_box(part, **how):
        of = points[:, part], points[:, part], dens[part], options
        return parki.vjp("laplace", *of, values=values[part], wrt=("box",), **how)["box"]

    found, expected = by_box(whole, systems=[0, 4, 9]), sum(map(by_box, parts))
    np.testing.assert_allclose(found, expected, atol=1e-5 * abs(expected).max())
    given = "yukawa(kappa=2.0)", points, points, dens, options
    how = {"wrt": ("kappa",), "systems": [0, 4, 9], "boxes": [[1, 1, 1]] * 2}
    with pytest.raises(parki.ParkiValueError, match="parki does not have for systems in boxes of"):
        parki.vjp(*given, values=values, **how)


def small(rng, count=12):
    """Return points and forces, and a box."""
    box = parki.lattice(1, 1.1, 0.9, xy=0.3, yz=-0.2)
    points = box.T @ rng.random((3, count))
    return points, rng.standard_normal((3, count)), box


@pytest.mark.parametrize(
    "of", ["forces", "spheres", pytest.param("torques", marks=pytest.mark.slow)]
)
def test_torch(of, rng):
    torch = pytest.importorskip("torch")
    import parki.torch

    points, forces, box = small(rng)
    x, f, box = map(
        torch.tensor, (points, forces, box.diagonal().copy() if of == "forces" else box)
    )
    x.requires_grad_()

    def energy(x, box):
        options = parki.EwaldOptions(3, box, 1e-9)
        if of == "forces":
            return (parki.torch.stokes_sl(x, x, f, options) * f).sum()
        both = (f, f.flip(0)) if of == "torques" else (f,)
        found = parki.torch.sphere_velocities(x, [0.04, 0.05] * 6, *both, options=options)
        return sum((each * f).sum() for each in (found if of == "torques" else (found,)))

    change = torch.tensor(rng.standard_normal(box.shape))
    slope = difference(lambda g: float(energy(x.detach(), g["box"])), {"box": box}, {"box": change})
    given = box.clone().requires_grad_()
    found, by_points = torch.autograd.grad(energy(x, given), (given, x))
    assert found.shape == box.shape and by_points.shape == x.shape
    assert abs((found * change).sum() - slope) <= 1e-5 * abs(slope)
    both = torch.func.grad(energy, argnums=1)(x.detach(), box)
    assert torch.allclose(both, found, rtol=1e-10)
    _, moved = torch.func.jvp(lambda box: energy(x.detach(), box), (box,), (change,))
    assert abs(moved - slope) <= 1e-5 * abs(slope)


def test_what_torch_refuses(rng):
    torch = pytest.importorskip("torch")
    import parki.torch

    points, forces, box = (torch.tensor(each) for each in small(rng))
    box.requires_grad_()
    options = parki.EwaldOptions(3, box)
    assert options == parki.EwaldOptions(3, box.detach())

    def energy(box):
        return parki.torch.stokes_sl(points, points, forces, periodicity=3, box=box).sum()

    with pytest.raises(parki.ParkiTypeError, match="box requires a gradient, which only the"):
        parki.stokes_sl(points, points, forces, options)
    with pytest.raises(parki.ParkiTypeError, match=r"box has no values .*outside of that"):
        torch.func.vmap(torch.func.grad(energy))(box.detach()[None])
    torch.compiler.reset()
    for call in (energy, lambda _: parki.torch.stokes_sl(points, points, forces, options).sum()):
        with pytest.raises(Exception, match=r"box is an array within torch\.compile"):
            torch.compile(call, fullgraph=True, backend="aot_eager")(box)


def test_jax(rng):
    jax = pytest.importorskip("jax")
    import parki.jax

    with jax.enable_x64():
        x, f, box = (jax.numpy.asarray(each) for each in small(rng))
        options = parki.EwaldOptions(3, [1, 1, 1], 1e-9)

        def energy(x, box):
            return (parki.jax.stokes_sl(x, x, f, options, box=box) * f).sum()

        change = rng.standard_normal(box.shape)
        slope = difference(lambda g: float(energy(x, g["box"])), {"box": box}, {"box": change})
        found, by_points = jax.jit(jax.grad(energy, argnums=(1, 0)))(x, box)
        assert abs((found * change).sum() - slope) <= 1e-5 * abs(slope)
        assert by_points.shape == x.shape
        by_lengths = jax.grad(
            lambda box: parki.jax.stokes_sl(x, x, f, periodicity=2, box=box).sum()
        )(jax.numpy.ones(3))
        assert by_lengths.shape == (3,) and by_lengths[2] == 0 and by_lengths[:2].all()
