"""The threads of the host: work that they share out, launches at a time, forks, objects."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from small_kernels import SQUARE, run_python, small_kernel, write_kernel

import parki
from parki.errors import KernelError
from parki.runtime import host, shipped
from parki.runtime import kernel as kernel_module
from parki.runtime.forks import cached_property, cuts, run_in_threads

COUNT = """
    @pk.workunit
    def f(i: int, v: pk.View1D[pk.int32], total: pk.View1D[pk.int32], real: pk.View1D[REAL]):
        v[i] += 1
        pk.atomic_add(total, [0], 1)
        pk.atomic_add(real, [0], 0.5)
    """
SCRATCH = """
    @pk.workunit
    def f(team: pk.TeamMember, v: pk.View1D[REAL]):
        s: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), {}, 10)
        s[0][0] = pk.exp(v[team.league_rank()])
        v[team.league_rank()] = s[0][0]
    """


def test_many_callers_at_a_time(tmp_path, monkeypatch):
    """More than the pool has launches, and each index is done once in each."""
    monkeypatch.setenv("PARKI_NUM_THREADS", "4")
    kernel = small_kernel(tmp_path, COUNT)
    kernel.build()
    total, real, callers, times = np.zeros(1, np.int32), np.zeros(1), 24, 100

    def work(n: int) -> None:
        v = np.zeros(n, np.int32)
        for _ in range(times):
            kernel(n, v=v, total=total, real=real)
        assert (v == times).all()

    sizes = range(1, 20 * callers, 20)
    run_in_threads(work, sizes, callers)
    assert total[0] == 2 * real[0] == times * sum(sizes)


def test_a_child_has_threads_of_its_own_and_the_system_may_allow_few(tmp_path):
    code = """
    import os, resource, sys
    import numpy as np
    from parki.runtime import get_execution_space, load
    def started():
        before, v = tasks(), np.ones(100)
        kernel(100, v=v)
        return tasks() - before if (v == 1.25).all() else 100
    def tasks():
        return len(os.listdir("/proc/self/task"))
    def child(room):
        process = os.fork()
        if not process:
            size = 4096 * int(open("/proc/self/statm").read().split()[0])
            resource.setrlimit(resource.RLIMIT_AS, (size + room,) * 2)
            os._exit(started())
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    kernel = load(sys.argv[1], "f", get_execution_space("OpenMP"))
    kernel.build()
    print(child(2**22), started(), child(2**30))
    """
    if sys.platform != "linux":
        pytest.skip("threads are counted on Linux only")
    file = write_kernel(tmp_path, SQUARE)
    status, out, err = run_python(code, file, PARKI_NUM_THREADS="9", OPENBLAS_NUM_THREADS="1")
    assert status == 0, err
    few, *others = map(int, out.split())
    assert few < 8 and others == [8, 8]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_fork_while_another_thread_sums():
    """The child refuses that plan, which is half done there; other plans and calls serve it."""
    code = """
    import os, signal, threading
    import numpy as np
    import parki
    from parki.runtime import blocks
    points, dens = np.random.default_rng(0).random((3, 20)), np.ones(20)
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-2, execution_space="Serial")
    plan, other = (parki.Plan("laplace", points, points, options) for _ in range(2))
    expected, begun, done = plan(dens), threading.Barrier(2), threading.Event()
    def sums():
        with plan.exclusive(), blocks._one_at_a_time:
            begun.wait()
            done.wait()
    thread = threading.Thread(target=sums)
    thread.start()
    begun.wait()
    if not os.fork():
        signal.alarm(60)  # in place of a child that hangs
        try:
            plan(dens)
        except parki.UnavailableError as error:
            print(error)
        with blocks._one_at_a_time:
            pass
        again = parki.laplace(points, points, dens, options)
        print(np.allclose(other(dens), expected), np.allclose(again, expected))
        os._exit(0)
    print(os.wait()[1])
    done.set()
    thread.join()
    print(np.allclose(plan(dens), expected))
    with plan.exclusive():  # which is no other thread's
        if not os.fork():
            print(np.allclose(plan(dens), expected))
            os._exit(0)
    os.wait()
    """
    status, out, err = run_python(code)
    message, *rest = out.splitlines()
    assert message.startswith("this process was forked while another thread used this plan"), err
    assert (status, rest) == (0, ["True True", "0", "True", "True"]), err


def test_properties_are_computed_without_a_lock():
    """A child would wait for one that another thread had at the fork (Python before 3.12)."""
    begun, done = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def value(self) -> int:
            begun.set()
            return done.wait(20)

    first = Slow()
    thread = threading.Thread(target=lambda: first.value)
    thread.start()
    begun.wait()
    begun.clear()
    second = threading.Thread(target=lambda: Slow().value)
    second.start()
    assert begun.wait(10)
    done.set()
    thread.join()
    second.join()
    locked = re.compile(r"functools(\.| import .*)cached_property")
    files = Path(parki.__file__).parent.rglob("*.py")
    found = {path.stem for path in files if locked.search(path.read_text(encoding="utf-8"))}
    assert found == {"forks", "split"}  # the reference knows nothing of the solver


@pytest.mark.parametrize(
    ("policy", "threads", "spins"),
    [("PASSIVE", "1", 0), ("active", "1", host.SPINS), ("", "1", host.SPINS), ("active", "999", 0)],
)
def test_how_long_threads_look_for_work(tmp_path, monkeypatch, policy, threads, spins):
    """Not at all where the user says so, or where there are more of them than cores."""
    monkeypatch.setenv("OMP_WAIT_POLICY", policy)
    monkeypatch.setenv("PARKI_NUM_THREADS", threads)
    monkeypatch.setattr(kernel_module, "_loaded", {})
    assert small_kernel(tmp_path, SQUARE).build().args[0] == spins


def test_scratch_for_which_there_is_no_memory(tmp_path):
    v = np.zeros(2)
    small_kernel(tmp_path, SCRATCH.format(5))(2, v=v)
    assert v.tolist() == [1.0, 1.0]
    with pytest.raises(KernelError, match="f: there is no memory for a team's scratch"):
        small_kernel(tmp_path, SCRATCH.format(2**45))(2, v=v)


def test_objects_need_the_library_of_c_alone(tmp_path):
    """Two copies of OpenMP in a process, such as PyTorch's and another, disturb each other."""
    if sys.platform != "linux" or shipped.usable():
        pytest.skip("needs Linux, and kernels that are compiled here")
    kernels = [small_kernel(tmp_path, text) for text in (COUNT, SCRATCH.format(5))]
    threads = host.THREADS.read_text(encoding="utf-8")
    for source in (threads, *(kernel._object.source for kernel in kernels)):
        made = host.HostObject("f", source)
        made.entry()
        path = host.cache_directory() / f"{made.key}.so"
        words = ["readelf", "--dynamic", str(path)]
        run = subprocess.run(words, capture_output=True, text=True, check=True)
        needed = [line.split("[")[1] for line in run.stdout.splitlines() if "NEEDED" in line]
        assert all(name.startswith(("libc.", "libm.", "libpthread.", "ld-")) for name in needed)


# ---------------------------------------------------------------------- work that threads share out
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_everything_is_done_once(threads):
    done, who = [], set()

    def work(item):
        time.sleep(1e-3)  # lets others have some
        done.append(item)
        who.add(threading.get_ident())

    for times in (1, 2, 3):
        who.clear()  # others may be at work the next time
        run_in_threads(work, range(50), threads)
        assert len(who) <= threads
        assert threading.get_ident() in who
        assert sorted(done) == sorted([*range(50)] * times)


def test_threads_work_at_the_same_time():
    """Each waits for the other."""
    meeting = threading.Barrier(3, timeout=20)
    run_in_threads(lambda _: meeting.wait(), range(3), 3)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("bad", [0, 5])
def test_what_fails_is_raised_and_ends_the_work(threads, bad):
    done = []

    def work(item):
        if item == bad:
            raise IndexError(f"item {item}")  # of the work, not of the list of items
        time.sleep(1e-3)
        done.append(item)

    with pytest.raises(IndexError, match=f"item {bad}"):
        run_in_threads(work, range(1000), threads)
    assert len(done) < 100
    run_in_threads(done.append, ["after"], threads)
    assert done[-1] == "after"


def test_many_callers():
    """Threads of the user's that each share out work."""
    sums = []

    def call():
        found = []
        run_in_threads(found.append, range(100), 3)
        sums.append(sum(found))

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
    assert sums == [4950] * 8


@pytest.mark.parametrize(
    ("rows", "parts", "sizes"),
    [(10, 3, [3, 3, 4]), (3, 8, [1, 1, 1]), (0, 4, []), (5, 0, [5]), (1, 1, [1])],
)
def test_rows_in_parts(rows, parts, sizes):
    found = cuts(rows, parts)
    assert [row for part in found for row in range(rows)[part]] == list(range(rows))
    assert [part.stop - part.start for part in found] == sizes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_has_a_pool_of_its_own():
    code = """
    import os, signal, time
    from parki.runtime.forks import run_in_threads
    run_in_threads(time.sleep, [0.01] * 4, 4)
    if not os.fork():
        signal.alarm(60)  # in place of a child that waits for its parent's threads
        found = []
        run_in_threads(found.append, range(20), 4)
        os._exit(sorted(found) != list(range(20)))
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]) != 0)
    """
    assert run_python(code)[0] == 0
