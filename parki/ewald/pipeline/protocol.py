"""`Pipeline`: what does the work of a plan, on one device or over ranks.

The stages do not know each other. A pipeline joins them: near field (P2P), and P2G, FGC, G2P for
the far field. There are `OneDevice`, and `parki.distributed.slab.Slab` for a rank among many.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parki.ewald.choice.machines import machine
from parki.ewald.choice.memory import Memory
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.lattice import Lattice
from parki.ewald.near.p2p_lists import PairLists
from parki.ewald.pipeline.invalid_values import InvalidValues
from parki.ewald.pipeline.setup import Setup
from parki.ewald.points.cloud import SurveyedCloud
from parki.ewald.points.extent import known_lengths
from parki.ewald.ranks import Ranks
from parki.ewald.task import Task
from parki.memory import in_words, told
from parki.runtime import ExecutionSpace, forks
from parki.runtime.spaces import LITTLE, free_memory, refuse_capture
from parki.settings import read_once
from parki.typing import AnyArray


class Access(forks.Lock):
    """The one lock of the sums of a placement.

    Attributes
    ----------
    done : object or None
        The end of the last block, after which another stream may use the memory.
    """

    def __init__(self, space: ExecutionSpace) -> None:
        super().__init__("this plan")
        self.space, self.done, self._holder = space, cast(Any, None), 0
        self._block: Any = None

    def __call__(self) -> AbstractContextManager[None]:
        """Wait for other threads and, on a device, other streams that use the memory.

        Within this, the same thread enters again for nothing.
        """
        return self if self._holder == threading.get_ident() else self._alone()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        space = self.space
        with self, read_once(), told():
            if space.on_device:
                forks.refuse(space.name)  # before CUDA says something else
                refuse_capture()
            block = self._block = space.adapter.exclusive(self.done)
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = 0
                self.done = block and block.end()

    def follow(self, done: Any) -> None:
        """Wait, within this, for streams that used other memory until then."""
        if self._block is not None:
            self._block.follow(done)


Watch = Callable[[str], AbstractContextManager[Any]]  # of the stages, by name
unwatched: Watch = nullcontext  # times no stage


Place = Callable[[dict[str, AnyArray]], None]  # of points by name


class Pipeline:
    """The stages of a plan for fixed points.

    Attributes
    ----------
    setup : Setup or None
        None while there is nothing to sum.
    memory : Memory or None
        What this rank needs, as predicted for the points that the parameters were chosen for.
    ranks : Ranks
        Those whose stages these are.
    asynchronous : bool
        Whether all stages can be launched before the first runs.
    """

    setup: Setup | None
    memory: Memory | None
    asynchronous: bool
    ranks: Ranks
    counts: InvalidValues | None = None  # of densities that were summed before a look at them
    copied: SurveyedCloud | None = None  # the points placed, if a sum of one density copied them

    def placed(
        self, task: Task, points: SurveyedCloud, one_shot: bool = False, setup: Setup | None = None
    ) -> Pipeline:
        """Return a pipeline for other points, which keeps what suits them.

        It has no stages if there is nothing to sum. Use only the one returned, which may be this
        one; or this one, after `undo`. ``one_shot``
        says that a density to sum follows at once. A ``setup`` is taken whether or not it suits
        the points.
        """
        raise NotImplementedError

    def begin(self) -> None:
        """Keep what is placed for `undo`, which other points may overwrite."""

    def undo(self) -> None:
        """Serve the points that were placed at `begin`, whatever has been placed since."""

    @property
    def groups(self) -> tuple[Systems | None, Labels | None]:
        """The systems and labels of the points that are placed, which graphs have."""
        return None, None

    def forgo_lists(self) -> None:
        """Take no lists of pairs where near fields are short, because points soon move."""

    @property
    def recording(self) -> tuple[object, str, bool]:
        """What `RecordedSteps.begin` takes, of steps with products at the present points."""
        return self, "products meet other ranks", False

    # On one device alone, points can be placed before the host has looked at them.
    def follows(self, arrays: dict[str, AnyArray]) -> bool:
        """Return whether points may be placed before the host has looked at them."""
        return False

    def place_async(self, task: Task, lattice: Lattice, arrays: dict[str, AnyArray]) -> bool:
        """Place points before the host has looked at them, if that is possible."""
        return False

    def recordable(
        self, task: Task, arrays: dict[str, AnyArray], points: Callable[[], SurveyedCloud]
    ) -> tuple[Pipeline, Place] | None:
        """Return another pipeline, and what places points there in a graph of several sums.

        ``arrays`` are as those to come, and ``points`` returns those that are placed here. None
        where nothing is recorded, or until as many points have come again.
        """
        return None

    def launched(self, box: Lattice | None) -> None:
        """Serve points that a graph was launched for, whose box this is."""
        raise NotImplementedError

    def validate_pending(self) -> tuple[bool, bool]:
        """Return whether points that followed were in the box, and crowd as those that suited."""
        raise NotImplementedError

    def replan(self, task: Task, points: SurveyedCloud) -> Pipeline:
        """Return the pipeline for points that followed, by another set-up if this one is wrong."""
        raise NotImplementedError

    def copies(self, arrays: dict[str, AnyArray]) -> dict[str, Any]:
        """Return copies of arrays as they were when they followed."""
        raise NotImplementedError

    def for_new_plans(self) -> Pipeline:
        """Return a pipeline for new plans like this one: its set-up, and which points suited."""
        raise NotImplementedError

    @property
    def holds(self) -> float:
        """Bytes that the stages hold, as predicted; without stages, what the set-up holds."""
        raise NotImplementedError

    def recorded(self, many: int) -> Any:
        """Return the graph of an application to ``many`` densities, if there is one."""
        return None

    def apply(self, dens: AnyArray, results: dict[str, AnyArray], watch: Watch) -> None:
        """Overwrite results (k, rows, targets) with the sums of densities (k, rows, sources)."""
        raise NotImplementedError

    def apply_strained(
        self,
        dens: AnyArray,
        results: dict[str, AnyArray],
        motion: NDArray[np.float64] | None = None,
        weights: AnyArray = None,
    ) -> None:
        """Overwrite results of which "strain" (k, 9, systems) is one, or that change.

        It is the derivative by strains of densities times "u", or of ``weights`` (k, rows, targets)
        times "u"; these have no other result. With a ``motion`` results are how they change along
        the strain ``dx = motion x`` of points and box. All are in the axes of the pipeline.
        """
        raise NotImplementedError

    @property
    def lists(self) -> PairLists | None:
        """The lists of pairs, on a device."""
        raise NotImplementedError

    @property
    def gathering(self) -> str:
        """The variant of G2P, in words."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return lines to add to the description of a plan."""
        raise NotImplementedError


Sizes = tuple[int, int, Systems | None]  # targets, sources, and the systems that they are of
# What is summed, where, whether once, and the first of systems, which other groups of boxes do not
# have; and the numbers of points then.
Key = tuple[tuple[Task, Any, bool, int | None], tuple[int, int] | None]

# Pipelines kept, of each kind: a loss on energies, forces and the stress takes eight.
MOST = 12
MANY = 256  # the same of sums of systems, which have a pipeline for each group of like boxes
ALTERNATING = 2  # of them of one sum, for points of other numbers
PART = 1 / 4  # of the free memory, which those that are kept may take


# What finished sums and new plans leave for the next ones like them, which would else choose
# parameters, plan transforms and tabulate multipliers again; the end of what each did last; and the
# bytes that each holds, which do not change while it is kept.
_cache: dict[Key, tuple[Pipeline | None, Any, float]] = {}
NOTHING: tuple[None, None, float] = None, None, 0.0
_allowed = [0.0]  # the most bytes for which there was room


def peek_pipeline(task: Task, sizes: Sizes) -> Pipeline | None:
    """Return the pipeline that the last sum of one density left, which another may take first."""
    return _cache.get(_key(task, sizes), NOTHING)[0]


def cached_pipeline(task: Task, sizes: Sizes | None) -> tuple[Pipeline | None, Any]:
    """Return a pipeline that nobody uses, and the block to follow; or None twice.

    None, too, where other numbers of the machine would now choose its parameters. ``sizes`` are of
    one sum; None for a plan. Points of numbers that come first take the set-up of the last sum, and
    where several are in turn, the memory of the one before, if it is of the same parameters: graphs
    are for one number of points.
    """
    key = _key(task, sizes)
    pipeline, done, _ = _cache.pop(key, NOTHING)
    if pipeline is None:
        others = [other for other in list(_cache) if other[0] == key[0]]
        if len(others) >= ALTERNATING:
            pipeline, done, _ = _cache.pop(others[0], NOTHING)
        last, done_last, _ = _cache.get(others[-1], NOTHING) if others else NOTHING
        old = None if pipeline is None else pipeline.setup
        if last is not None and (old is None or not old.same_choice(last.setup)):
            pipeline, done = last.for_new_plans(), done_last
    setup = None if pipeline is None else pipeline.setup
    if setup is None or setup.parameters.problem.machine != machine(task.space, task.dtype):
        return None, None
    return pipeline, done


def keeps(task: Task) -> bool:
    """Return whether pipelines of a task are kept.

    Not where the box depends on the points; nor where the options are deterministic, as parameters
    would depend on the sums before.
    """
    return None not in task.options.box and not task.options.deterministic


def cache_pipeline(task: Task, sizes: Sizes | None, pipeline: Pipeline, done: Any = None) -> None:
    """Keep a pipeline that is not used any more, if there is room for what it ``holds``.

    See `keeps`.
    """
    if not keeps(task):
        return
    new = _key(task, sizes)
    _cache[new] = pipeline, done, pipeline.holds
    kind = _kind(new)
    for key in [key for key in list(_cache) if _kind(key) == kind][: -MANY if kind[1] else -MOST]:
        _cache.pop(key, None)
    held = _held()
    if held > max(LITTLE, *_allowed):  # asking how much is free takes a millisecond
        _allowed[:] = [held]
        if held > PART * (free_memory(task.space) + held):
            clear_cache()


def clear_cache() -> None:
    """Give back the memory that sums have left for the next ones like them.

    `parki.stokes_comb` and its relatives, `parki.energy` and derivatives keep what was placed for
    the last twelve sums of one density: grids, tables, copies of the points, graphs on a GPU. Sums
    of many systems keep it for the last 256 groups that are summed at once. The last twelve plans
    leave parameters and tables for new ones like them. All take at most a quarter of the memory
    that is free when they are kept. So sums in a loop cost what time steps of a plan cost, also
    where points of two numbers are in turn. Plans are not concerned. `parki info` says how much is
    kept.
    """
    _cache.clear()
    known_lengths.cache_clear()
    _allowed[:] = [0.0]


def describe_cache() -> str:
    """Return how many pipelines this process keeps, and how much memory they take, as text."""
    sums, of_systems, plans = (
        sum(_kind(key) == kind for key in list(_cache))
        for kind in ((True, False), (True, True), (False, False))
    )
    return (
        f"of {sums} sums (at most {MOST}), {of_systems} sums of systems (at most {MANY}) and "
        f"{plans} plans (at most {MOST}), for the next ones, {in_words(_held())} of at most a "
        "quarter of the free memory; parki.clear_cache() drops it"
    )


def _held() -> float:
    return sum(size for *_, size in list(_cache.values()))


def _key(task: Task, sizes: Sizes | None) -> Key:
    systems = sizes and sizes[2]
    first = systems.first if systems else None
    return (task, task.space.adapter.device(), sizes is not None, first), sizes and sizes[:2]


def _kind(key: Key) -> tuple[bool, bool]:
    """Return whether a pipeline is of a sum, and of a sum of systems."""
    return key[0][2], key[0][3] is not None
