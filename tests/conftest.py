"""What tests share: execution spaces, moving arrays to and from them, random numbers.

It also chooses which combinations of parameters the default run meets (see CONTRIBUTING.md): the
markers `pairwise` and `each` leave the others to the long run. The files that take longest come
first, so that two processes end together.

The compile cache is the user's (PARKI_CACHE_DIR), so that a second run compiles nothing.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import degrees
import few
import numpy as np
import pytest

from parki import interchange
from parki.ewald import clear_cache
from parki.ewald.choice.clustering import pair_density
from parki.runtime import ExecutionSpace, get_execution_space, host
from parki.runtime.spaces import why_unavailable

MARKS = {"Cuda": pytest.mark.gpu, "HIP": pytest.mark.hip}
ABSENT = {name: why_unavailable(name) for name in ("OpenMP", "Serial", "Cuda", "HIP")}
SPACES = [
    pytest.param(name, id=name, marks=MARKS.get(name, ()))
    for name, reason in ABSENT.items()
    if not reason
]
# The files that take longest, the longest first, so that those that pytest-xdist hands out last are
# short.
LONGEST = (
    "ranks distributed frameworks torch_compiled torch examples refused_updates executor "
    "p2p_cells moves slopes docs programs wall_spheres surface_convergence offline_compile "
    "accuracy composite_derivatives cli shipped rigid_spheres sphere_noise regularised "
    "force_dipoles in_precisions estimates concurrent p2p_lists by_box upstream compiler"
).split()


# Numbers of periodic axes with which the default run prefers to meet a sum, so that tests share
# kernels: the near field has some for each sum and each number.
USUAL_AXES = {
    "laplace": (0, 3),
    "stokes_comb": (1, 3),
    "stokes_comb(epsilon=0.1, blob='prolate')": (1,),
    "stokes_dipole": (2,),
    "gravity": (3,),
}


# Kernels that this process and its workers took and compiled, by their names in the cache.
TAKEN: set[str] = set()
COMPILED: set[str] = set()
# The default run takes this many at most, whole and with what `[test]` brings: each takes a third
# of a second where none is in the cache. A change that needs more says so here: the last ones were
# systems in boxes that differ, which have kernels of all stages at three tolerances, and steps of
# solves and what bodies do alone: eight workunits, in two precisions and two spaces.
# Charges that are soft, of one width and of many, have 45 in their pairs, and sums between two
# walls, with each source and result, most of the rest. Charges near plates have 35, as potentials
# and energies of images take pairs that energies of boxes do not.
# Energies of PyTorch and JAX, copies of plans, and examples of charges that respond have 14.
# Layers near surfaces have one for each of eight results, and eight more for all.
# Batches of different periodicity have 35, of the laws' sum along one axis and along two; slabs and
# wires in boxes of their own, 10. Derivatives by the widths of charges have 11.
# What multiplies most is in docs/notebook/decisions.md, under "Kernels that a test run takes".
MOST_KERNELS = 1350


def pytest_configure(config: pytest.Config) -> None:
    """Count the kernels that tests take, and those not in the cache; see who wants slow tests."""
    few.LONG_RUN[:] = [config.getoption("markexpr") != "not slow"]
    take = host.HostObject.entry

    def counted(self: Any) -> Any:
        if self.shipped is None:
            TAKEN.add(self.key)
            COMPILED.update(() if self.cached() else (self.key,))
        return take(self)

    host.HostObject.entry = counted


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the kernels of this worker, or judge those of all of them."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["kernels"] = sorted(TAKEN), sorted(COMPILED)
    elif too_many(config) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the kernels of a worker along; one that was killed tells none."""
    told_of = getattr(node, "workeroutput", {}).get("kernels", ())
    for names, told in zip((TAKEN, COMPILED), told_of, strict=False):
        names.update(told)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how many kernels there were, in the last line before the results."""
    line = f"parki: {len(TAKEN)} kernels were taken, {len(COMPILED)} of them compiled"
    more = f"; expected at most {MOST_KERNELS}: see MOST_KERNELS" if too_many(config) else ""
    terminalreporter.write_line(line + more)


def too_many(config: pytest.Config) -> bool:
    """Return whether a whole default run took more kernels than it may."""
    chosen = config.getoption("keyword"), config.getoption("markexpr") != "not slow"
    whole = not any(chosen) and config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return whole and len(TAKEN) > MOST_KERNELS


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make no items of parameters that the long run alone meets: there are four in five of them."""
    make = metafunc.parametrize

    def parametrize(names: Any, values: Any, *, ids: Any = None, **more: Any) -> None:
        values = [*values]
        kept = [place for place, value in enumerate(values) if not is_slow(value)]
        if kept:
            values = [values[place] for place in kept]
            ids = [ids[place] for place in kept] if isinstance(ids, (list, tuple)) else ids
        make(names, values, ids=ids, **more)

    if not few.LONG_RUN[0]:
        metafunc.parametrize = parametrize  # type: ignore[method-assign]


def is_slow(value: Any) -> bool:
    """Whether a value of a parameter is marked as slow."""
    marked = isinstance(value, type(pytest.param()))
    return marked and any(mark.name == "slow" for mark in value.marks)


def pytest_report_header() -> list[str]:
    """Say which spaces have no tests in this run, and why."""
    found = ", ".join(name for name, reason in ABSENT.items() if not reason)
    lines = [f"parki: tests run in the spaces {found}"]
    lines += [f"parki: no tests in the space {name}: {why}" for name, why in ABSENT.items() if why]
    return lines


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as slow what the long run alone meets, before pytest looks at the markers."""
    functions: dict[tuple[Any, ...], list[pytest.Item]] = {}
    files_with_serial = set()
    for item in items:
        if item.get_closest_marker("slow") or not hasattr(item, "callspec"):
            continue
        # OpenMP runs the same kernels: one test of each file says that Serial does too.
        if item.callspec.params.get("space") == "Serial":
            if item.path in files_with_serial:
                item.add_marker(pytest.mark.slow)
            files_with_serial.add(item.path)
        else:
            functions.setdefault((item.path, item.function), []).append(item)
    for group in functions.values():
        for marker, size in (("pairwise", 2), ("each", 1)):
            if group[0].get_closest_marker(marker):
                kept = covering([values_of(item) for item in group], size, is_usual)
                for place in set(range(len(group))) - kept:
                    group[place].add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):  # one of several processes
        longest_first(items)


def longest_first(items: list[pytest.Item]) -> None:
    """Put the tests of the longest files first, and leave the others in their order."""
    order = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


def values_of(item: pytest.Item) -> list[tuple[str, Any]]:
    """Return name and value of each parameter, or the identity of what cannot be hashed."""

    def known(value: Any) -> Any:
        try:
            hash(value)
        except TypeError:
            return id(value)
        return value

    params = item.callspec.params
    return [(name, known(params[name])) for name in sorted(params)]


def is_usual(case: Sequence[tuple[str, Any]]) -> bool:
    """Whether a case has a sum with a usual number of periodic axes, if it has both."""
    named = dict(case)
    kernel, axes = named.get("kernel"), named.get("periodicity")
    return kernel is None or axes is None or axes in USUAL_AXES.get(kernel, (axes,))


def covering(
    cases: Sequence[Sequence[Any]], size: int, preferred: Callable[[Any], bool] = bool
) -> set[int]:
    """Return the places of some cases that meet all that the cases meet of any ``size`` values.

    Each next one is one of those that meet most of what was not met before: of these a preferred
    one, and the first of those whose values were met least.
    """
    met = [set(itertools.combinations(case, min(size, len(case)))) for case in cases]
    missing = set().union(*met)
    times: Counter[Any] = Counter()
    kept, likely = set(), [preferred(case) for case in cases]
    new = {place: len(values) for place, values in enumerate(met)}

    def rank(place: int) -> tuple[bool, int, int]:
        return likely[place], -sum(times[value] for value in cases[place]), -place

    while missing:
        most = max(new.values())
        best = max((place for place, count in new.items() if count == most), key=rank)
        kept.add(best)
        missing -= met[best]
        new = {place: len(met[place] & missing) for place, count in new.items() if count}
        times.update(cases[best])
    return kept


@pytest.fixture(params=SPACES)
def space(request: pytest.FixtureRequest) -> ExecutionSpace:
    """Each execution space of this machine."""
    return get_execution_space(request.param)


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Have every sum choose its parameters, whatever tests summed before."""
    clear_cache()


@pytest.fixture(scope="session", autouse=True)
def few_degrees() -> Iterator[None]:
    """Choose from few degrees and windows, so that sums share kernels; see CONTRIBUTING.md."""
    with pytest.MonkeyPatch.context() as patch:
        degrees.few_degrees(patch.setattr)
        yield


@pytest.fixture(autouse=True)
def chosen_degrees(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose from all of them where a test asks for it."""
    if request.node.get_closest_marker("chosen_degrees"):
        degrees.all_degrees(monkeypatch.setattr)


@pytest.fixture
def to_space(space: ExecutionSpace) -> Callable[[Any], Any]:
    """Return what copies a host array into the memory of ``space``."""
    return lambda values: space.array_module.array(values)


@pytest.fixture
def to_host() -> Callable[[Any], Any]:
    """Return what brings an array to the host."""
    return lambda values: np.asarray(interchange.to_host(values))


@pytest.fixture
def rng() -> np.random.Generator:
    """Return the same random numbers for every test."""
    return np.random.default_rng(2026)


@pytest.fixture(scope="session")
def uniform():
    """Return the density of pairs of 20 000 uniform points."""
    points = np.random.default_rng(0).random((3, 20_000))
    return pair_density(points, points, np.ones(3))
