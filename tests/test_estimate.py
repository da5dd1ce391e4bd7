"""`parki.estimate` says beforehand what a plan says of itself."""

import json

import numpy as np
import pytest

import parki
from parki.cli import main as cli
from parki.ewald.choice import machines
from parki.ewald.choice.cost import STAGES
from parki.runtime import get_execution_space

COUNT = 5000
CUBE = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-4}
WALL = {"periodicity": 2, "box": [1, 1, 1], "tolerance": 1e-4, "wall": "no-slip"}
SUMS = [("laplace", CUBE, 1), ("laplace", CUBE, 10), ("stokes_sl", WALL, 1)]


@pytest.mark.parametrize(("kernel", "options", "systems"), SUMS)
def test_plans_of_uniform_points_say_the_same(rng, kernel, options, systems):
    points, how = rng.random((3, COUNT)), {}
    if systems > 1:
        how["systems"] = range(0, COUNT + 1, COUNT // systems)
    plan = parki.Plan(kernel, points, points, **options, **how)
    found = parki.estimate(kernel, COUNT, **options, systems=systems)
    for stage, seconds in found.seconds.items():
        own = [
            member.sum.pipeline.setup.parameters.seconds[stage]
            * (len(member.shared.lists) if member.shared else 1)
            for member in plan.terms
        ]
        assert seconds == pytest.approx(sum(own), rel=0.1)
    assert found.memory.peak == pytest.approx(plan.memory.peak, rel=0.1)
    assert found.total == pytest.approx(sum(found.seconds.values()))


def test_spheres_say_the_same(rng):
    points = rng.random((3, COUNT))
    spheres = parki.Spheres(points, 0.01, **CUBE)
    own = spheres._mobility.first.parameters.seconds
    found = parki.estimate("spheres", COUNT, radii=0.01, **CUBE)
    assert found.seconds == pytest.approx(own, rel=0.1)
    assert found.noise > found.total
    more = parki.estimate("spheres", COUNT, radii=0.01, torques=True, **CUBE)
    assert more.total > 3 * found.total
    several = parki.estimate("spheres", COUNT, radii=[0.01, 0.02], torques=True, **CUBE)
    assert parki.estimate("spheres", COUNT, radii=[0.01, 0.02], torques=True, **WALL).total > 0
    assert len(several.chosen) == 4 and "polydisperse" in several.chosen[0]
    assert parki.estimate("spheres", COUNT, radii=[0.01, 0.02], **CUBE).seconds != found.seconds
    assert parki.estimate("spheres", COUNT, radii=0.01, **WALL).noise is None


def test_rigid_spheres_say_the_same(rng):
    points = (np.mgrid[:9, :9, :9].reshape(3, -1) + rng.uniform(0.4, 0.6, (3, 729))) / 9
    rigid = parki.RigidSpheres(points, 0.03, **CUBE)
    own = rigid._mobility.first.parameters.seconds
    found = parki.estimate("rigid_spheres", 729, radii=0.03, **CUBE)
    assert found.seconds == pytest.approx(own, rel=0.15)
    assert found.solve == pytest.approx(6 * found.total)
    assert "a motion, solved" in str(found)


def test_rigid_bodies_say_the_same(rng):
    shape = parki.BodyShape.rod(0.1, 0.01)
    sites = (np.mgrid[:8, :8, :8].reshape(3, -1) + rng.uniform(0, 0.4, (3, 512))) / 8
    bodies = parki.RigidBodies(shape, sites, **CUBE)
    own = bodies._spheres._mobility.first.parameters.seconds
    found = parki.estimate("rigid_bodies", 512 * shape.n, radii=shape.radii[0], **CUBE)
    assert found.total == pytest.approx(sum(own.values()), rel=0.15)
    assert found.solve == pytest.approx(8 * found.total) and found.noise is None
    with pytest.raises(parki.ParkiTypeError, match="torques"):
        parki.estimate("rigid_bodies", 512, radii=0.01, torques=True, **CUBE)


def test_named_machines(tmp_path):
    slow = parki.estimate("stokes_comb", 4e6, **CUBE, machine="avx512")
    fast = parki.estimate("stokes_comb", 4e6, **CUBE, machine="h200")
    assert fast.total < slow.total / 10
    assert fast.free is None and "H200" in str(fast) and "free here" not in str(fast)
    factors = dict.fromkeys(("float64", "float32"), dict.fromkeys(STAGES, 2.0))
    content = machines.tuned(get_execution_space("CPU"), factors)
    content |= {"machine": "a violin 1 threads", "threads": 1}
    path = tmp_path / "tuned-violin.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    found = parki.estimate("laplace", 1e5, **CUBE, machine=path)
    assert "violin" in found.rests_on
    content["factors"] = dict.fromkeys(content["factors"], dict.fromkeys(STAGES, 6.0))
    path.write_text(json.dumps(content), encoding="utf-8")
    slower = parki.estimate("laplace", 1e5, **CUBE, machine=path)
    assert slower.total == pytest.approx(3 * found.total)
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(parki.ParkiValueError, match="no measurements of 'parki tune'"):
        parki.estimate("laplace", 1e5, **CUBE, machine=path)


def test_what_would_fit_is_said(monkeypatch):
    monkeypatch.setattr("parki.prediction.sums.free_memory", lambda _: 1e8)
    found = parki.estimate("stokes_comb", 1e6, **CUBE)
    assert found.fitting and "would fit: " in str(found)


def test_better_numbers_are_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path))
    machines.clear()
    found = parki.estimate("laplace", 1000, **CUBE)
    assert found.rests_on.endswith("run 'parki tune'")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"points": 1.5}, "points is 1.5; expected a whole number"),
        ({"points": "many"}, "points is 'many'; expected a number of points"),
        ({"machine": "cray"}, "machine is 'cray'; expected h200 or avx512"),
        ({"radii": 0.1}, "radii is for parki.estimate of spheres, rigid_spheres and rigid_bodies"),
        ({"kernel": "spheres"}, "radii is missing"),
        ({"kernel": "rigid_spheres", "radii": 0.01, **WALL}, "no stresslets near a wall"),
        ({"box": [1, 1, None], "periodicity": 2}, "an estimate has no points"),
        ({"tolerance": 1e-9, "dtype": "float32"}, "float32 holds"),
        ({"tol": 1e-9}, "did you mean tolerance"),
    ],
)
def test_impossible_estimates_are_refused(given, message):
    given = {"kernel": "laplace", "points": 1000, **CUBE, **given}
    with pytest.raises(parki.ParkiError, match=message):
        parki.estimate(given.pop("kernel"), given.pop("points"), **given)


def test_command(capsys):
    words = "estimate --points 1e5 --tolerance 1e-4 --machine h200".split()
    assert cli.main([*words, "--kernel", "stokes_comb", "--periodicity", "1", "--want", "u,p"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("stokes_comb, 1-periodic, tolerance 0.0001, 100000 sources")
    assert "want ('u', 'p')" in text and "costs of an H200" in text
    assert cli.main([*words, "--kernel", "spheres", "--radii", "0.01", "0.02", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["free"] is None and np.isfinite(found["noise"])
    tilted = ["--kernel", "laplace", "--box", *"1 1 1 0.2 0 0".split(), "--systems", "4"]
    assert cli.main([*words, *tilted]) == 0
    assert "of 4 systems" in capsys.readouterr().out
