"""`Progress`: what a solver or a time loop has done, and the time left, on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sized
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from parki.errors import MissingPackageError, ParkiTypeError
from parki.interchange import number, positive, to_host
from parki.typing import AnyArray

if TYPE_CHECKING:
    from rich.console import Console
    from typing_extensions import Self

Item = TypeVar("Item")


class Progress:
    """Draw a line with the steps done, the residual and the time left, on stderr.

    It is silent if stderr is no terminal, and within another one. The object is the callback of a
    solver, or is called once for each step::

        with parki.Progress("GMRES", rtol=1e-6) as show:
            x, status = gmres(A, b, rtol=1e-6, callback=show, callback_type="pr_norm")

        for step in parki.Progress("falling").over(range(100)):
            ...

    Parameters
    ----------
    title : str
    steps : int, optional
        Number of steps, if it is known: the bar and the time left follow from it.
    rtol : float, optional
        Factor by which the residual falls until the solver stops. The bar and the time left follow
        from it, for a residual that falls by the same factor in each step. The scale of the
        residuals does not matter, as preconditioners change it.
    console : rich.console.Console, optional
        Where to draw, instead of stderr.

    Attributes
    ----------
    count : int
        Steps done.
    residuals : list of float
        Residuals that it was called with.

    Raises
    ------
    ParkiTypeError, ParkiValueError
    MissingPackageError
        If it is to be drawn, and rich is not installed.
    """

    _drawn = False  # whether one is: two would write over each other

    def __init__(
        self,
        title: str,
        steps: int | None = None,
        rtol: float | None = None,
        console: Console | None = None,
    ) -> None:
        self.count, self.residuals = 0, list[float]()
        self._steps, self._rtol = steps, rtol
        for name, value in (("steps", steps), ("rtol", rtol)):
            if value is not None:
                positive(name, value, "a positive number, or None")
        self._title, self._console = title, console
        self._display: Any = None  # rich's, while it is drawn

    def __enter__(self) -> Self:
        try:
            from rich import progress  # slow to import
            from rich.console import Console
        except ModuleNotFoundError as error:
            raise MissingPackageError(
                f"parki.Progress draws with rich, which cannot be imported ({error}); install it "
                "with 'pip install rich'"
            ) from error

        shown = self._console or Console(stderr=True)
        self._display = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[said]}"),
            console=shown,
            disable=not shown.is_terminal or Progress._drawn,
            transient=True,
            redirect_stdout=False,  # a program's output may go to a file
            redirect_stderr=False,
        )
        known = self._steps is not None or self._rtol is not None
        self._task = self._display.add_task(self._title, total=1.0 if known else None, said="")
        self._display.start()
        self._outer, Progress._drawn = Progress._drawn, True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        Progress._drawn = self._outer
        self._display.stop()
        self._display = None

    def __call__(self, residual: AnyArray = None) -> None:
        """Count a step.

        Parameters
        ----------
        residual : float, optional
            Relative residual. Another value, such as the vector that SciPy's `cg` passes, counts as
            none.
        """
        self.count += 1
        said = f"{self.count}" if self._steps is None else f"{self.count} of {self._steps}"
        if residual is not None and np.ndim(residual) == 0:
            self.residuals.append(number("residual", to_host(residual), "a number"))
            said += f", residual {self.residuals[-1]:.1e}"
        if self._display is not None:
            self._display.update(self._task, completed=self._fraction(), said=said)

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items, such as the numbers of time steps, and count each when it is done."""
        if not isinstance(items, Iterable):
            raise ParkiTypeError(
                f"items is a {type(items).__name__}; expected what a loop takes, such as range(100)"
            )
        if self._steps is None and isinstance(items, Sized):
            self._steps = len(items)
        with self:
            for item in items:
                yield item
                self()

    def _fraction(self) -> float:
        """Return the part that is done, from 0 to 1."""
        if self._steps is not None:
            return min(self.count / self._steps, 1.0)
        values = [value for value in self.residuals if 0 < value < math.inf]
        if self._rtol is None or len(values) < 2 or self._rtol >= 1:
            return 0.0
        # The first value comes after the first step, and SciPy's GMRES divides the residual of the
        # preconditioned system by the plain right side: its start is at the scale of the
        # preconditioner. One step more, of the mean factor, leads back to the start.
        fallen = math.log(values[-1] / values[0]) * len(values) / (len(values) - 1)
        return min(max(fallen / math.log(self._rtol), 0.0), 1.0)
