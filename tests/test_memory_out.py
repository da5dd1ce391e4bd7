"""What a sum and the rooms on top say where memory or address space runs out."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_kernels import run_python

import parki
from parki.memory import told
from parki.runtime.spaces import host as host_space


def test_no_room_for_an_exception():
    """A C function of Python may fail without one where no memory is left; others stay."""
    for words, expected in (
        ("error return without exception set", parki.ParkiMemoryError),
        ("bad argument to internal function", SystemError),
    ):
        with pytest.raises(expected, match=words), told():
            raise SystemError(words)


def test_several_densities_are_counted(monkeypatch):
    """Before any work: one result of 24 GB was begun, where 23 were free."""
    points, dens = np.random.default_rng(0).random((3, 1000)), np.ones((1, 1000))
    made = parki.Plan("laplace", points, points, periodicity=3, box=[1, 1, 1], tolerance=1e-2)
    many = np.broadcast_to(dens[0], (50_000, 1000))
    monkeypatch.setattr("parki.memory.free_memory", lambda space: 3e8)
    with pytest.raises(parki.ParkiMemoryError, match="the results of 50000 densities at 1000"):
        made(many)
    assert made(many[:3]).shape == (3, 1000)
    with pytest.raises(parki.ParkiMemoryError, match="need 400 MB, but 300 MB are free here"):
        parki.laplace(points, points, many, periodicity=3, box=[1, 1, 1], tolerance=1e-2)


@pytest.mark.parametrize("error", [OSError(errno.ENOMEM, "Cannot allocate memory"), MemoryError()])
def test_what_runs_out_is_told(error, monkeypatch):
    """As a ParkiMemoryError, whoever found it: of the map of a grid came an OSError."""

    def none(*given, **others):
        raise error

    points = np.random.default_rng(0).random((3, 100))
    how = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-2}
    monkeypatch.setattr("parki.ewald.pipeline.arrival.Stages", none)
    with pytest.raises(parki.ParkiMemoryError, match=r"memory ran out \((MemoryError|.*allocate)"):
        parki.Plan("laplace", points, points, **how)
    with pytest.raises(parki.ParkiMemoryError, match="memory ran out"):
        parki.laplace(points, points, points[0], **how)


def test_other_errors_of_the_system_stay():
    with pytest.raises(FileNotFoundError), parki.memory.told():
        Path("/nowhere/at/all").read_bytes()


def test_the_limit_of_the_process():
    """Is known before memory runs out, as of ``ulimit -v``."""
    resource = pytest.importorskip("resource")
    code = """
import resource, psutil
from parki.runtime.spaces.host import free_memory
now = psutil.Process().memory_info().vms
resource.setrlimit(resource.RLIMIT_AS, (now + 2**28, resource.RLIM_INFINITY))
print(free_memory())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert resource and 2**27 <= float(run.stdout) <= 2**28


def test_no_memory_is_left_to_ask_for_it(monkeypatch):
    """Where psutil's library finds no address space, Python says that it cannot import it."""
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(parki.ParkiMemoryError, match="before it could be asked how much is free"):
        host_space.free_memory()


LIMITED = """
import os, resource, sys
import numpy as np
import parki
points = np.random.default_rng(0).random((3, 100))
box = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-2}
def sums():
    return parki.laplace(points, points, points[0], **box)
def rigid():
    return parki.RigidSpheres(np.zeros((3, 1)), 0.1, **box).velocities(np.ones((3, 1)))
def layer():
    surface = parki.Surface.spheres(np.full((3, 1), 0.5), 0.2, order=4)
    plan = parki.LayerPlan("laplace", surface, **box)
    return plan(np.ones(surface.nodes.shape[1]))
def child(work, room):
    process = os.fork()
    if process:
        return os.waitpid(process, 0)[1]
    size = 4096 * int(open("/proc/self/statm").read().split()[0])
    limit = resource.RLIM_INFINITY if room is None else size + room * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit,) * 2)
    said = "wrong"
    try:
        said = "right" if np.isfinite(work()).all() else said
    except parki.ParkiMemoryError as error:
        said = f"told: {error}"
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    os.write(1, f"{work.__name__} {room} {said[:200]}\\n".encode())
    os._exit(0)
for work in (sums, rigid, layer):
    for room in (None, 0, 4, 16, 45):
        if child(work, room):
            os.write(1, f"{work.__name__} {room} ended\\n".encode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit")
def test_no_address_space_is_left():
    """For libraries, modules and threads: it is told, by whichever of them the limit meets."""
    status, out, err = run_python(LIMITED, OPENBLAS_NUM_THREADS="1")
    assert status == 0, err
    found = {}
    for line in out.splitlines():
        work, room, said = line.split(" ", 2)
        found[work, room] = said
    assert len(found) == 15, out
    assert all(found[work, "None"] == "right" for work in ("sums", "rigid", "layer")), out
    told = [said for said in found.values() if said.startswith("told: memory ran out (")]
    ended = [said for said in found.values() if said == "ended"]  # by OpenBLAS, without an error
    assert told and len(told) + len(ended) + list(found.values()).count("right") == 15, out + err
    assert err.count("OpenBLAS error") == len(ended), err
