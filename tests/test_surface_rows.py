"""Rows that `scripts/surfaces.py` prints, with fewer nodes where they say the same."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import parki
from parki.surfaces import apart

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import surfaces as script

SLOW = {"marks": pytest.mark.slow}
ROWS = [
    (2, 1.45, {"u": 2e-3, "p": 3e-3, "traction": 4e-2}),
    pytest.param(4, 1.6, {"u": 3e-4, "p": 4e-4, "traction": 1e-2}, **SLOW),
    (6, 1.8, {"u": 8e-5, "p": 2e-4, "traction": 4e-3}),
]


@pytest.mark.parametrize(("order", "width", "bounds"), ROWS)
def test_layers_of_a_moved_ellipsoid(order, width, bounds):
    """Up to five node distances away, on 1250 nodes alone, by the exact density."""
    found = script.layers(24, [(order, width)], (0, 0.02, 0.3, 2, 5))
    for place in (0, 0.02, 0.3, 2, 5):
        for want, bound in bounds.items():
            far = {2: 3e-3, 5: 1e-6}.get(place, 1.0)
            assert found[order, place, want] < bound * far, (place, want)
    assert found[order, 0, "double"] < {2: 2.5e-3, 4: 5e-4, 6: 4e-4}[order]
    assert found[order, 0, "double"] < 0.5 * found[order, 0, "without constants"]


PLAIN = "without constants"
WANTED = [
    (4, 1.6, {"u": 3e-5, "p": 4e-5, "traction": 6e-4, "double": 5e-5, PLAIN: 4.5e-4}),
    (8, 2.0, {"u": 2.5e-6, "p": 5e-6, "traction": 1e-4, "double": 1e-5}),
]


@pytest.mark.parametrize(("order", "width", "bounds"), WANTED)
def test_layers_on_a_fine_ellipsoid(order, width, bounds):
    """On 2450 nodes alone; tractions and pressures at nodes have no error of the jump."""
    found = script.layers(34, [(order, width)], (0,))
    for name, bound in bounds.items():
        place = name if name in ("u", "double", PLAIN) else f"{name} at nodes"
        assert found[order, 0, place] < bound
    assert found[order, 0, "traction at nodes"] < 0.8 * found[order, 0, "traction"]


def test_own_parts_by_polar_coordinates():
    """At 162 nodes: of the ellipsoid's exact density, of a rotation, and of a rod's normals."""
    surface = parki.Surface.ellipsoids(script.ORIGIN, script.AXES, order=8)
    x, n, f = surface.nodes, surface.normals, script.density(surface.nodes)
    u, _ = script.translating(x)
    assert np.abs(surface.single_layer(f, **script.FREE) - u).max() < 3e-4 * np.abs(u).max()
    for side, sign in (("outside", 1), ("mean", 0), ("inside", -1)):
        more = {"side": side, **script.FREE}
        traction = surface.single_layer(f, want="traction", **more)
        pressure = surface.single_layer(f, want="p", **more)
        size = 4 * np.pi * np.abs(f).max()
        assert np.abs(traction + (1 + sign) * 4 * np.pi * f).max() < 5e-4 * size
        assert np.abs(pressure - (1 + sign) * 4 * np.pi * (f * n).sum(axis=0)).max() < 5e-3 * size
    spin = np.cross([0.3, 1.0, -0.5], x.T).T
    for constants in (True, False):
        turned = surface.double_layer(spin, constants=constants, **script.FREE) / (8 * np.pi)
        assert np.abs(turned - spin / 2).max() < (1e-8 if constants else 1e-3)
    rod = parki.Surface.rods(script.ORIGIN, 4.0, 1.0, order=7)
    assert np.abs(rod.single_layer(rod.normals, **script.FREE)).max() < 2e-2


@pytest.mark.parametrize(
    ("order", "U", "near"), [(8, 2e-5, 3e-2), pytest.param(12, 2e-7, 4e-3, **SLOW)]
)
def test_a_moved_ellipsoid(order, U, near):
    off, errors, steps = script.ellipsoid(order, (0, 0.02, 0.3, 2))
    assert off < U and steps < 8
    assert max(errors) < near and errors[-1] < 0.1 * near


@pytest.mark.parametrize(
    ("fraction", "known", "degree", "alone"),
    [
        (0.343, 15.3996, 12, 3e-3),
        pytest.param(0.125, 4.291589, 16, 1e-5, **SLOW),
        pytest.param(0.45, 28.0866, 16, 1e-3, **SLOW),
    ],
)
def test_arrays_of_nodes_alone(fraction, known, degree, alone):
    """With 338 and 578 nodes; `test_surface_equations.py` has finer ones."""
    K, steps = script.array(parki.RigidSurfaces, fraction, degree, 1, order=4, width=1.6)
    assert abs(K / known - 1) < alone and steps < 25


@pytest.mark.parametrize("distance", [1.0, 0.25])
def test_gaps(distance):
    """The table holds, and says what the largest error was."""
    with pytest.warns(parki.ParkiWarning, match="resolve densities") if distance < 0.5 else quiet():
        told, together, pushed = script.gap(6, distance)
    expected = apart.expected(told, True)
    assert distance < told < 1.2 * distance
    assert 0.3 * expected < pushed < 1.2 * expected
    assert together < 0.01 * pushed + 1e-6


def test_gaps_of_bubbles():
    """No figure: velocities at nodes have larger errors than the table of rigid bodies says."""
    with pytest.warns(parki.ParkiWarning, match="errors that are largest at the nodes") as found:
        told, at_nodes, mean = script.gap_of_drops(6, 0.25, "past", reference=12)
    assert not any("expect errors of" in str(each.message) for each in found)
    assert 0.25 < told < 0.3
    assert 1.3 * apart.expected(told, True) < at_nodes < 0.06
    assert mean < 0.05 * at_nodes
    with quiet():  # nothing is solved
        _, at_nodes, _ = script.gap_of_drops(6, 0.25, "past", 1.0, reference=8)
    assert at_nodes < 1e-5


def quiet():
    return warnings.catch_warnings(action="error")


def test_a_warning_of_images():
    """Once for each plan, with the bodies and the gap."""
    surface = parki.Surface.spheres(np.full((3, 1), 0.5), 0.49, order=5)
    box = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-5}
    with pytest.warns(parki.ParkiWarning, match=r"body 0 and its image are 0\.\d+ node distances"):
        plan = parki.LayerPlan("stokes_dl", surface, **box)
    assert 0.1 < plan.gap < 0.2
    with quiet():
        plan.update_positions(np.full((3, 1), 0.6))
    assert apart.expected(3.0, True) == 0.0 and apart.expected(0.01, True) < 0.07
    middle = apart.expected(0.7, True)
    assert apart.FINER[1] < middle < apart.FINER[2]
