"""The same result every time, bit for bit: runs, threads, processes, devices with the option."""

from __future__ import annotations

import hashlib
import re

import flat
import numpy as np
import pytest
from contract import call_of
from small_kernels import run_python

import parki
from parki import EwaldOptions
from parki.ewald.choice import machines
from parki.ewald.far import sizes
from parki.ewald.options.variants import UNORDERED
from parki.ewald.sums import SUMS
from parki.interchange import to_host
from parki.runtime import get_execution_space
from parki.runtime.spaces import why_unavailable

# Sums with each kind of source.
FEW = (("laplace", 3, "f8"), ("stokes_comb", 1, "f8"), ("stokes_dipole", 3, "f4"))
# Prints a digest of them.
DIGESTS = """
    import sys
    from degrees import few_degrees
    from test_determinism import digests
    few_degrees()
    print(digests(sys.argv[1], sys.argv[2] == "True", int(sys.argv[3])))
    """


def results(space, kernel, periodicity, dtype, deterministic, n=2000, **options):
    """Return what a plan and a single call give."""
    xp = get_execution_space(space).array_module
    rng = np.random.default_rng(3)
    src = xp.asarray(rng.random((3, n)).astype(dtype))
    dens = rng.standard_normal(SUMS[kernel].density_shape(n)).astype(dtype)
    dens = xp.asarray(dens)
    norms = [xp.asarray(rng.standard_normal((3, n)).astype(dtype))]
    norms = norms if SUMS[kernel].normals else []
    chosen = flat.options(
        periodicity,
        [1, 1, 2 if periodicity < 3 else 1],
        execution_space=space,
        deterministic=deterministic,
        **{"tolerance": 1e-4, **options},
    )
    want = ("u", "grad_u")
    plan = parki.Plan(kernel, src, src, *norms, chosen, want=want)
    once = call_of(parki, kernel)(src, src, dens, *norms, chosen, want=want)
    found = [*plan(dens), *plan(dens), *once]
    return [to_host(values) for values in found]


def digests(space, deterministic, n):
    """Return a digest of sums, after a look that each is the same three times."""
    digest = hashlib.sha256()
    for kernel, periodicity, dtype in FEW:
        found = results(space, kernel, periodicity, dtype, deterministic, n)
        for values, again, once in zip(found[:2], found[2:4], found[4:], strict=True):
            np.testing.assert_array_equal(values, again)
            np.testing.assert_array_equal(values, once)
        digest.update(b"".join(values.tobytes() for values in found))
    return digest.hexdigest()


@pytest.mark.parametrize("space", [pytest.param("Serial", marks=pytest.mark.slow), "OpenMP"])
def test_again(space):
    assert digests(space, False, 500) == digests(space, False, 500)


def test_threads_and_processes(monkeypatch):
    """With the option, results do not hang on the number of threads, nor on that of the BLAS."""
    how = dict.fromkeys(("PARKI_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "3")
    status, out, err = run_python(DIGESTS, "OpenMP", True, 2000, **how)
    monkeypatch.setenv("PARKI_NUM_THREADS", "1")
    assert (status, out.strip()) == (0, digests("OpenMP", True, 2000)), err


def test_parameters_do_not_hang_on_what_was_measured(monkeypatch):
    space = get_execution_space("OpenMP")
    usual = machines.machine(space, "f8", fixed=True)
    monkeypatch.setenv("PARKI_NUM_THREADS", "7")
    monkeypatch.setattr(machines, "read", lambda space: 1 / 0)
    assert machines.machine(space, "f8", fixed=True) == usual
    assert usual.workers == 1


@pytest.mark.parametrize("file", machines.FILES.values())
def test_no_usual_variant_adds_in_any_order(file):
    for precision in machines.shipped(file)["seconds"]:
        _, spread, _ = machines.of_file(machines.shipped(file), precision).usual
        assert spread not in UNORDERED


@pytest.mark.parametrize("method", UNORDERED)
def test_atomics_are_refused(method):
    message = f"deterministic is True, but p2g_method is '{method}', which adds to the grid by ato"
    with pytest.raises(parki.ParkiValueError, match=re.escape(message)):
        flat.options(box=[1, 1, 1], deterministic=True, p2g_method=method)
    flat.options(box=[1, 1, 1], deterministic=False, p2g_method=method)
    with pytest.raises(parki.ParkiTypeError, match="deterministic is 1; expected True or False"):
        EwaldOptions(box=[1, 1, 1], deterministic=1)


@pytest.mark.parametrize("method", ["auto", "owner", "tile", "grid"])
def test_others_are_not(method):
    how = {"p2g_method": method, "tolerance": 1e-2, "window_points": 8}
    found = results("OpenMP", "stokes_comb", 1, "f8", True, 300, **how)
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.gpu
@pytest.mark.parametrize("n", [500, 200_000])
def test_on_a_device(n):
    reason = why_unavailable("Cuda")
    if reason:
        pytest.skip(reason)
    assert len({digests("Cuda", True, n) for _ in range(3)}) == 1


@pytest.mark.parametrize("kernel", ["stokes_comb", "laplace"])
@pytest.mark.parametrize("periodicity", [1, 3])
def test_threads_change_no_digit_of_spreading(kernel, periodicity, monkeypatch):
    """However planes are shared out, a value of the grid sums the same in the same order."""
    rng = np.random.default_rng(3)
    points = rng.random((3, 300))
    dens, norms = rng.standard_normal((SUMS[kernel].rows, 300)), rng.standard_normal((3, 300))
    how = {"cutoff": 0.3, "window_points": 8, "p2g_method": "owner", "execution_space": "CPU"}
    options = flat.options(periodicity, [1, 1, 1], 1e-2, deterministic=True, **how)
    grids, shares = [], []
    monkeypatch.setattr(sizes, "WINDOWS_LEAST", 0)  # wake threads for few points, too
    for threads in (1, 2, 5):
        monkeypatch.setenv("PARKI_NUM_THREADS", str(threads))
        given = [norms] if kernel == "stokes_comb" else []
        plan = parki.Plan(kernel, points, points, *given, options)
        buffer = np.empty_like(dens)
        grids.append(plan.pipeline.stages.p2g.apply(np.ascontiguousarray(dens), buffer).copy())
        shares.append([int(numbers[4]) for _, numbers in plan.pipeline.stages.p2g.colours])
    assert shares[0] != shares[1] != shares[2]
    assert all(np.array_equal(grids[0], grid) for grid in grids[1:])
