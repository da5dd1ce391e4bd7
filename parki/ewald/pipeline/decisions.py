"""`DECISIONS`: how one device places points that arrive, in one table.

``docs/architecture.md`` shows it, with the docstrings of its conditions.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from parki.ewald.choice.clustering import PairDensity, pair_density
from parki.ewald.choice.memory import Memory, is_free
from parki.ewald.pipeline.crowding import CROWDED
from parki.ewald.pipeline.replay import Replay, why_not
from parki.ewald.pipeline.setup import Setup
from parki.ewald.pipeline.slack import Slack
from parki.ewald.pipeline.stages import Stages
from parki.ewald.task import Frame, Points, Task
from parki.runtime.forks import cached_property


class Decision(NamedTuple):
    """A way to place points, which is taken if no decision before it was.

    Attributes
    ----------
    name : str
    conditions : tuple of str
        Properties of `Arrival`, all of which hold.
    action : str
        What is done, as the docs say it.
    """

    name: str
    conditions: tuple[str, ...]
    action: str


DECISIONS = (
    Decision(
        "keep",
        ("recorded",),
        "launch the graph; then, if the parameters are wrong, go on below",
    ),
    Decision(
        "move",
        ("same_setup", "singly", "compared", "similar"),
        "launch the stages; then, if the parameters are wrong, go on below",
    ),
    Decision(
        "record",
        ("suits", "has_grids", "as_many", "repeated", "records"),
        "record the launches as a graph, and launch it; if there is none, go on below",
    ),
    Decision("repeat", ("suits", "has_grids", "as_many"), "launch the same again"),
    Decision(
        "resize",
        ("suits", "has_grids"),
        "launch the stages for another number of points, on a device with slack",
    ),
    Decision("renew", ("suits",), "check memory, and make all stages"),
    Decision("choose", (), "choose parameters, check memory, and make all stages"),
)


class State(NamedTuple):
    """What a pipeline has before points arrive: see `OneDevice`, and `Crowding` for ``suited``."""

    setup: Setup | None
    memory: Memory | None
    stages: Stages | None
    graph: Replay | None
    slack: Slack | None
    suited: list[float] | None
    decision: str
    expected: dict[str, tuple[int, ...]]


class Arrival:
    """Points that arrive at a pipeline, and the conditions of `DECISIONS`.

    Parameters
    ----------
    state : State
        What the pipeline has placed and chosen.
    setup : Setup or None
        For the box of the points; None if there is none.
    task, points
    once : bool
        Whether one density is summed next.
    asked : Setup, optional
        Taken whether or not it suits the points.

    Attributes
    ----------
    arrays : dict of arrays
        Points, normals, tensors and marks, without sources that are the targets.
    problem : str
        Why launches are not recorded, if so.
    graph : Replay or None
        Which was tried, and refused.
    followed : bool
        Whether a graph has placed the points.
    """

    def __init__(
        self,
        state: State,
        setup: Setup | None,
        task: Task,
        points: Points,
        once: bool = False,
        asked: Setup | None = None,
    ) -> None:
        self.state, self.stages, self.setup = state, state.stages, asked or setup
        self.task, self.points, self.once, self.asked = task, points, once, asked
        left_out = {"src"} if points.survey.same else set()
        self.arrays = {n: a for n, a in points.arrays.items() if n not in left_out}
        self.problem = why_not(task.space, task.executor, points.targets, points.sources)
        self.later = once and task.space.on_device  # a CPU runs one field after the other
        self.graph: Replay | None = None
        self.followed = False

    # ------------------------------------------------------------------ values
    @cached_property
    def frame(self) -> Frame:
        """The box in the solver."""
        if self.setup is not None:
            return self.setup.frame
        before = None if self.state.setup is None else self.state.setup.frame
        return Frame.of(self.task, self.points.lattice, before)

    @cached_property
    def wrapped(self) -> tuple[Any, Any]:
        """Targets and sources as the grid takes them; one array, if they are the same."""
        return wrapped(self.task, self.frame, self.arrays)

    @cached_property
    def density(self) -> PairDensity:
        """How the points crowd, by a sample."""
        apart = self.task.options.images_below(self.points.survey.of_sources)
        edges, systems = self.frame.lattice.edges, self.points.systems
        return pair_density(*self.wrapped, edges, systems, apart)

    @cached_property
    def slack(self) -> Slack | None:
        """The slack for the points: as there is, or more where their number has changed."""
        slack, stages, points = self.state.slack, self.stages, self.points
        if self.problem or self.once or points.systems or points.labels:
            return None
        if slack is not None and slack.takes(self.arrays):
            return slack
        if stages is None or stages.sizes == _shapes(self.arrays):
            return None
        return Slack.of(self.arrays, norms=self.task.transposed_pair == "")

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The arrays, which fill the slack."""
        return self.slack.points(self.task.xp, self.arrays) if self.slack else self.arrays

    @property
    def _same_marks(self) -> bool:
        """Whether systems and labels are those that are placed."""
        stages, points = self.stages, self.points
        if stages is None:
            return False
        return points.systems is stages.systems and points.labels is stages.labels

    # ------------------------------------------------------------------ conditions
    @property
    def recorded(self) -> bool:
        """A graph places as many points in this box."""
        graph = self.state.graph
        if graph is None or not (self.same_setup and self._same_marks):
            return False
        return self.slack is self.state.slack and graph.takes(self.columns)

    @property
    def same_setup(self) -> bool:
        """The grid fits the box."""
        old = self.state.setup
        return self.setup is not None and old is not None and self.setup.same_memory(old)

    @property
    def singly(self) -> bool:
        """Graphs cannot be made, or the points are a plan's first."""
        return not self.later and (bool(self.problem) or self.stages is None)

    @property
    def compared(self) -> bool:
        """It is known how points crowd that the parameters suit."""
        return self.asked is None and self.state.suited is not None

    @property
    def similar(self) -> bool:
        """Numbers differ by at most 10 %."""
        points, stages = self.points, self.stages
        if stages is not None:
            before = stages.sizes["trg"][1]
            return abs(points.targets - before) <= CROWDED * before and self._same_marks
        if points.labels or _shapes(self.arrays) != self.state.expected:
            return False
        return is_free(cast(Memory, self.state.memory), self.task.space)

    @cached_property
    def suits(self) -> bool:
        """The parameters suit a sample of the points."""
        if self.setup is None or self.asked is not None:
            return self.setup is not None
        return self.setup.suits(self.density, self.points)

    @property
    def has_grids(self) -> bool:
        """There are grids for as many systems."""
        stages, count = self.stages, self.points.counts[2]
        return stages is not None and stages.count == count and self.same_setup

    @property
    def as_many(self) -> bool:
        """There are stages for as many points."""
        sizes = self.stages and self.stages.sizes
        return self._same_marks and sizes == _shapes(self.columns)

    @property
    def repeated(self) -> bool:
        """They were launched again before."""
        return self.state.decision in ("repeat", "record", "keep")

    @property
    def records(self) -> bool:
        """A graph can be made, and was not refused before."""
        graph = self.state.graph
        return not self.problem and not (graph and graph.problem)


def _shapes(arrays: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}


def wrapped(task: Task, frame: Frame, arrays: dict[str, Any]) -> tuple[Any, Any]:
    """Return targets and sources as the grid takes them; one array, if they are the same."""
    trg = frame.wrap(task, arrays["trg"])
    return trg, frame.wrap(task, arrays["src"]) if "src" in arrays else trg
