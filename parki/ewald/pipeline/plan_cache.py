"""What finished sums and new plans leave for the next ones like them.

A program that sums in a loop would else choose parameters, plan transforms and tabulate multipliers
again and again. A one-shot sum leaves its pipeline, so that the next one is a time step of it. A
plan leaves its set-up with the multiplier, which plans may share.
"""

from __future__ import annotations

from typing import Any

from parki.ewald.choice.machines import machine
from parki.ewald.pipeline.protocol import Pipeline
from parki.ewald.task import Task
from parki.runtime.spaces import LITTLE, free_memory

Key = tuple[Task, bool, Any]

MOST = 4  # pipelines kept, of each kind
PART = 1 / 4  # of the free memory, which those that are kept may take


# By task, device, and whether it was for one sum; what each used last, and the end of that.
_kept: dict[Key, tuple[Pipeline, Any]] = {}


def take(task: Task, once: bool) -> tuple[Pipeline | None, Any]:
    """Return a pipeline that nobody uses, and the block to follow; or None twice.

    None, too, where other numbers of the machine would now choose its parameters.
    """
    kept, done = _kept.pop(_key(task, once), (None, None))
    setup = None if kept is None else kept.setup
    if setup is None or setup.problem.machine != machine(task.space, task.dtype):
        return None, None
    return kept, done


def keep(task: Task, once: bool, pipeline: Pipeline, done: Any = None) -> None:
    """Keep a pipeline that is not used any more, if there is room for what it ``holds``.

    None is kept where the box depends on the points; nor where the options are deterministic, as
    parameters would depend on the sums before.
    """
    if None in task.options.box or task.options.deterministic:
        return
    _kept[_key(task, once)] = pipeline, done
    same_kind = [key for key in list(_kept) if key[1] == once]
    for key in same_kind[:-MOST]:
        _kept.pop(key, None)
    held = sum(each.holds for each, _ in list(_kept.values()))
    if held > LITTLE and held > PART * (free_memory(task.space) + held):
        clear_cache()


def clear_cache() -> None:
    """Give back the memory that sums have left for the next ones like them.

    `parki.stokes_comb` and its relatives keep grids and tables of the last four sums, and the last
    four plans leave parameters and tables for new ones like them, all in at most a quarter of the
    free memory. Sums in a loop cost what time steps of a plan cost. Plans are not concerned.
    """
    _kept.clear()


def _key(task: Task, once: bool) -> Key:
    return task, once, task.space.adapter.device()
