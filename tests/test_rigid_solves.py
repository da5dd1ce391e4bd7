"""Iterations and Brownian motion of rigid bodies: products, errors, noise and drift."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from contract import rms
from dense_bodies import dense, flat
from helpers.mixed_bodies import (
    BOX,
    FORCES,
    TORQUES,
    TURNS,
    bodies,
)

import parki


def mobility_of_bodies(of):
    mobility, carried, resisted = dense(of)
    return np.linalg.inv(carried.T @ np.linalg.solve(mobility, carried) + resisted)


# ---------------------------------------------------------------------- iterations
def test_products_in_the_manual(monkeypatch):
    """Rows of the page by its script, where another processor may take one product more."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")
    import rigid
    from benchmarks.run import Run

    text = (Path(__file__).parents[1] / "docs/bodies.md").read_text(encoding="utf-8")
    page = text.partition("<!-- products: ")[2].partition("<!-- end of products -->")[0]
    rows = [row.strip("| ").split(" | ") for row in page.splitlines() if row[:4] == "| 20"]
    assert [(int(row[0]), float(row[1])) for row in rows] == list(rigid.BODIES)
    for row in rows:
        if row[0] == "20":
            found = rigid.products(Run(parki.get_execution_space("CPU")), 20, float(row[1]))
            assert np.abs(np.subtract(found, np.array(row[2:], int))).max() <= 1


def test_the_step_before_saves_products():
    of = bodies(accuracy=1e-6)
    show = parki.Progress("bodies")
    first = of.solve(FORCES, TORQUES, callback=show)
    assert show.count == first.products and show.residuals[-1] == first.error <= 1e-6
    assert of.solve(FORCES, TORQUES, start=first).products <= 2
    of.move(0.003 * first.velocities, 0.003 * first.turns)
    fresh, warm = of.solve(FORCES, TORQUES), of.solve(FORCES, TORQUES, start=first)
    assert warm.products < fresh.products
    assert rms(warm.velocities - fresh.velocities) <= 5e-6 * rms(fresh.velocities)


def test_errors_are_told(monkeypatch):
    of = bodies(accuracy=1e-6)
    monkeypatch.setattr("parki.dynamics.bodies_solver.MOST_PRODUCTS", 3)
    with pytest.raises(parki.ParkiError, match=r"error of \S+ after 3 products .* expected 1e-06"):
        of.velocities(FORCES)
    monkeypatch.undo()
    negative = lambda _, acts, **options: -acts["force"]  # noqa: E731
    monkeypatch.setattr(of._spheres.mobility, "product", negative)
    with pytest.raises(parki.ParkiError, match="not positive"):
        of.velocities(FORCES)
    monkeypatch.undo()
    assert of.solve(FORCES).error <= 1e-6


def test_errors_are_near_the_accuracy():
    of = bodies(tolerance=1e-6, accuracy=1e-9)
    exact = flat(*of.velocities(FORCES, TORQUES))
    for accuracy in (1e-2, 1e-4, 1e-6):
        of.accuracy = accuracy
        found = flat(*of.velocities(FORCES, TORQUES))
        assert rms(found - exact) <= 1.5 * accuracy * rms(exact)


# ---------------------------------------------------------------------- Brownian motion
@pytest.mark.parametrize("periodicity", [0, "wall"])
def test_noise(periodicity):
    """It is N K^T M^-1 times noise of the blobs, and noise of turns that move no blob."""
    of = bodies(periodicity, tolerance=1e-6, viscosity=3.0)
    mobility, carried, resisted = dense(of)
    exact = np.linalg.inv(carried.T @ np.linalg.solve(mobility, carried) + resisted)
    rng, again = (np.random.default_rng(5) for _ in range(2))
    found = flat(*of.noise(rng))
    radii = np.concatenate([of.shapes[k].radii for k in of.which])
    spheres = parki.Spheres(of.blobs, radii, of.options, viscosity=3.0)
    brownian_noise = spheres.noise(again, accuracy=1e-6).ravel()
    standard_normal = again.standard_normal((2, 3, 4)).ravel()
    values, vectors = np.linalg.eigh(resisted)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    expected = exact @ (
        root @ standard_normal - carried.T @ np.linalg.solve(mobility, brownian_noise)
    )
    assert rms(found - expected) <= 1e-4 * rms(expected)
    # So the covariance is N, as noise of the blobs has M.
    covariance = exact @ (resisted + carried.T @ np.linalg.solve(mobility, carried)) @ exact
    assert np.allclose(covariance, exact)


@pytest.mark.parametrize("periodicity", [0, "wall"])
def test_drift(periodicity):
    """The mean over w of a step's drift is kT times the divergence of N, turns included."""
    count = 1 if periodicity == "wall" else 2
    made = [parki.BodyShape.boomerang(0.2, 0.04, blobs=3), parki.BodyShape.rod(0.2, 0.03, 4)]
    places, turns = np.array([[0.4, 0.6], [0.5, 0.6], [0.3, 0.28]])[:, :count], TURNS[:count]
    how = {"periodicity": 2, "wall": "no-slip"} if periodicity == "wall" else {"periodicity": 0}
    how |= {"which": range(count), "box": BOX, "tolerance": 1e-6}
    of = parki.RigidBodies(made[:count], places, turns, **how)
    found = 0.0
    for unit in np.eye(6 * count):
        numbers = lambda _, unit=unit: unit.reshape(2, 3, -1).copy()  # noqa: E731
        flow, loads = of._equations.drift(numbers, 0.7, of.extent)
        found = found + of._equations.solve(loads, flow).moves
    exact, step = np.zeros(6 * count), 1e-4
    for unit in np.eye(6 * count):
        sides = []
        for side in (1, -1):
            of.update_positions(places, turns)
            of.move(*(side * step * unit).reshape(2, 3, -1))
            sides.append(mobility_of_bodies(of) @ unit)
        exact += 0.7 * (sides[0] - sides[1]) / (2 * step)
    assert rms(np.ravel(found) - exact) <= 1e-3 * rms(exact)


def test_displacements():
    """Drift is of the order of kT, noise of its root, and the deterministic part of neither."""
    of = bodies(tolerance=1e-6)
    steps = [flat(*of.displacements(kT, 0.01, 7, FORCES, TORQUES)) for kT in (0, 1e-8, 4e-8)]
    assert np.allclose(steps[0], 0.01 * flat(*of.velocities(FORCES, TORQUES)))
    once, twice = (step - steps[0] for step in steps[1:])
    assert rms(twice - 2 * once) <= 1e-3 * rms(once)
    expected = np.sqrt(2 * 1e-8 * 0.01) * flat(*of.noise(7))
    assert rms(once - expected) <= 1e-3 * rms(expected)
    # What is left of a step is the drift, whose numbers come after those of the noise.
    rng, kT = np.random.default_rng(7), 1e-3
    noise = flat(*of.noise(rng))
    of.accuracy /= 10  # whose first solve is looser
    flow, loads = of._equations.drift(lambda shape: rng.standard_normal(shape), kT, of.extent)
    drift = np.ravel(of._equations.solve(loads, flow).moves)
    of.accuracy *= 10
    left = flat(*of.displacements(kT, 0.01, 7, FORCES, TORQUES)) - steps[0]
    left -= np.sqrt(2 * kT * 0.01) * noise
    assert rms(left - 0.01 * drift) <= 0.02 * rms(0.01 * drift)
    with pytest.raises(parki.ParkiValueError, match="kT is -1"):
        of.displacements(-1, 1, 0)
    with pytest.raises(parki.ParkiValueError, match="periodicity=1 is not defined"):
        bodies(1).displacements(1, 1, 0)
