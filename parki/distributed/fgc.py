"""FGC over the ranks: each rank transforms along the axes that it has whole.

With three periodic axes, a rank transforms its slab along y and z. One exchange gives it a part of
the modes along y for all planes, which it transforms along x and convolves. One leads back.

With fewer there are two each way. The first gives a rank a part of the lines along x, transformed
as in `parki.ewald.far.convolution`. The second gives it a part of the modes along x, whose planes
it pads, transforms and convolves in blocks as on one device. Padded planes have four times the
values or more, and are never sent. Modes of truncated kernels cost more, so their parts have fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from parki.distributed.slabs import Slabs, divide
from parki.distributed.swap import Swap
from parki.distributed.transport import Transport
from parki.ewald.far.buffers import complex_type, components_of
from parki.ewald.far.convolution import Convolution
from parki.ewald.far.padding import Padding
from parki.ewald.far.transforms import transforms_of
from parki.ewald.pipeline.setup import Setup
from parki.ewald.task import Task
from parki.memory import Buffers, declare
from parki.typing import AnyArray


def slab_fgc(transport: Transport, slabs: Slabs, setup: Setup) -> _Periodic | _Free:
    """Return the Fourier grid convolution of this rank's slab."""
    kind = _Periodic if setup.mesh.periodicity == 3 else _Free
    return kind(transport, slabs, setup)


def _convolution(setup: Setup, first: int, last: int) -> Convolution:
    """Return the convolution of a part of the modes."""
    return Convolution(setup.mesh, setup.split, (first, last), setup.task.sum.symbol.grids)


def line_parts(padding: Padding, size: int) -> tuple[int, ...]:
    """Return the bounds of the ranks' parts of the lines along x, or of the modes along y."""
    return divide(np.ones(padding.grid[1]), size)


def mode_parts(padding: Padding, size: int) -> tuple[int, ...]:
    """Return the bounds of the ranks' parts of the modes along x, if another axis is free."""
    spans = padding.spans()
    areas = [float(level.lengths[1] * level.lengths[2]) for *_, level in spans]
    return divide(np.repeat(areas, [last - first for first, last, _ in spans]), size)


def slab_buffers(task: Task, padding: Padding, slabs: Slabs, rank: int) -> Buffers:
    """Return the arrays of a rank's slab, in the order in which a component goes through them."""
    components, sets = max(components_of(task)), task.sum.symbol.grids
    kind, (x, y, z) = complex_type(task), padding.grid
    planes, half = slabs.planes[rank + 1] - slabs.planes[rank], z // 2 + 1
    first, last = line_parts(padding, slabs.size)[rank : rank + 2]
    rows = last - first
    if padding.whole:
        shape = components, planes, sets, y, half
        return declare(kind, planes=shape, modes=(components, x, sets, rows, half))
    first, last = mode_parts(padding, slabs.size)[rank : rank + 2]
    waves = components, padding.local[0] // 2 + 1, sets, rows, z
    modes = declare(kind, waves=waves, modes=(components, last - first, sets, y, z))
    return declare(task.dtype, lines=(components, x, sets, rows, z)) | modes


class _Periodic:
    """Three periodic directions."""

    def __init__(self, transport: Transport, slabs: Slabs, setup: Setup) -> None:
        team, padding = transport.team, setup.mesh.padding
        lines = line_parts(padding, team.size)
        first, last = lines[team.rank : team.rank + 2]
        self.convolution = _convolution(setup, first, last)
        declared = slab_buffers(setup.task, padding, slabs, team.rank)
        self.planes, self.modes = (
            transport.xp.empty(shape, dtype) for shape, dtype in declared.values()
        )
        kind, grid = transforms_of(setup.task.space), padding.grid
        self.transforms = kind(grid, grid[0], True, self.convolution.sets)
        # Each swaps one component: (planes, sets, y, modes).
        self.swap = Swap(transport, "FGC", (0, slabs.planes), (2, lines))
        self.swap_back = self.swap.back()

    def apply(self, grid: AnyArray, field: AnyArray, plane: AnyArray) -> None:
        """Convolve.

        Parameters
        ----------
        grid : array, shape (components, planes, sets, y, z)
            Spread values on the slab's own planes.
        field : array, shape (rows, planes, sets, y, z)
            Output: the far field.
        plane : array or None
            Always None here; see `parki.ewald.far.gauge`.
        """
        c = self.convolution

        def spread(i: int) -> Callable[[], None]:
            if self.planes.size:
                self.transforms.across(grid[i : i + 1], self.planes[i : i + 1])
            return self.swap.start(self.planes[i], self.modes[i], i % 2)

        def gather(i: int) -> None:
            if self.planes.size:
                self.transforms.across_inverse(self.planes[i : i + 1], field[i : i + 1])

        def back(i: int) -> Callable[[], None]:
            if self.modes.size:
                self.transforms.along(self.modes[i], forward=False)
            return self.swap_back.start(self.modes[i], self.planes[i], i % 2)

        def along(i: int) -> None:
            if self.modes.size:
                self.transforms.along(self.modes[i], forward=True)

        _flow(c.inputs, spread, along)
        if self.modes.size:
            c.multiply(c.blocks[0], self.modes)
        _flow(c.rows, back, gather)


class _Free:
    """At least one free direction."""

    def __init__(self, transport: Transport, slabs: Slabs, setup: Setup) -> None:
        team, padding = transport.team, setup.mesh.padding
        lines, modes = line_parts(padding, team.size), mode_parts(padding, team.size)
        first, last = modes[team.rank : team.rank + 2]
        self.convolution = _convolution(setup, first, last)
        declared = slab_buffers(setup.task, padding, slabs, team.rank)
        self.lines, self.waves, self.modes = (
            transport.xp.empty(shape, dtype) for shape, dtype in declared.values()
        )
        x, part, z = padding.grid[0], lines[team.rank + 1] - lines[team.rank], padding.grid[2]
        kind, length = transforms_of(setup.task.space), padding.local[0]
        self.transforms = kind((x, part, z), length, False)
        # Each swaps one component: (planes or modes, sets, y, z).
        self.to_lines = Swap(transport, "FGC lines", (0, slabs.planes), (2, lines))
        self.to_modes = Swap(transport, "FGC modes", (2, lines), (0, modes))
        self.from_modes, self.from_lines = self.to_modes.back(), self.to_lines.back()

    def apply(self, grid: AnyArray, field: AnyArray, plane: AnyArray) -> None:
        """Convolve: as `_Periodic.apply`."""

        def spread(i: int) -> Callable[[], None]:
            return self.to_lines.start(grid[i], self.lines[i], i % 2)

        def forward(i: int) -> Callable[[], None]:
            if self.lines.size:
                self.transforms.real(self._rows(self.lines, i), self._rows(self.waves, i))
            return self.to_modes.start(self.waves[i], self.modes[i], 2 + i % 2)

        def back(i: int) -> Callable[[], None]:
            return self.from_modes.start(self.modes[i], self.waves[i], 2 + i % 2)

        def inverse(i: int) -> Callable[[], None]:
            if self.lines.size:
                self.transforms.real_inverse(self._rows(self.waves, i), self._rows(self.lines, i))
            return self.from_lines.start(self.lines[i], field[i], i % 2)

        _flow(self.convolution.inputs, spread, forward)
        self.convolution.planes(self.modes, plane)
        _flow(self.convolution.rows, back, inverse)

    @staticmethod
    def _rows(values: AnyArray, i: int) -> Any:
        """Return a component (1, x, sets part, z): its sets are lines side by side."""
        _, x, sets, part, z = values.shape
        return values[i].reshape(1, x, sets * part, z)


def _flow(
    count: int,
    start: Callable[[int], Callable[[], None]],
    after: Callable[[int], Callable[[], None] | None],
) -> None:
    """Exchange ``count`` components one after the other, and process each on arrival.

    While one component is on its way, the previous one is processed. The processing may begin a
    second exchange, and return a function that ends it.
    """
    first, second = {}, {}
    for i in range(count + 2):
        if i < count:
            first[i] = start(i)
        if i - 1 in first:
            first.pop(i - 1)()
            second[i - 1] = after(i - 1)
        if end := second.pop(i - 2, None):
            end()
