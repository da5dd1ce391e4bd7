"""The FFTs of FGC: by a library of the host, or cuFFT (hipFFT) through CuPy's plans on a device.

No transform scales: the multiplier carries the factor. Results go into given memory, so that
repeated sums allocate nothing on a device. On the host a transform is divided into parts. One
thread takes a part through all steps while a cache holds it. What a library allocates for a part is
small, so that its memory is reused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from parki.errors import UnavailableError
from parki.ewald.far.sizes import AT_ONCE, LINES, PART, workers
from parki.runtime import ExecutionSpace
from parki.runtime.forks import cuts, run_in_threads
from parki.settings import checked_setting, thread_count
from parki.typing import AnyArray

# The shape in memory of a transform's values, the step between them, and between transforms.
Layout = tuple[tuple[int, ...], int, int]


def library() -> ModuleType:
    """Return the library that `PARKI_FFT` names: see `parki.ewald.far.ffts`."""
    chosen = checked_setting("PARKI_FFT")
    try:
        return import_module(f"parki.ewald.far.ffts.by_{chosen}")
    except ImportError as error:
        raise UnavailableError(
            f"PARKI_FFT is {chosen!r}, but importing it fails ({error}); pip install {chosen}, or "
            "unset this environment variable"
        ) from error


class HostTransforms:
    """Transforms of one far field by `library`, divided among threads part by part.

    Parameters
    ----------
    grid : tuple of 3 ints
        Grid points along each axis, without spill.
    length : int
        Length of the transform along the first axis, which is padded up to it.
    periodic : bool
        Whether `real` transforms all axes, or only the first.
    sets : int
        Grids side by side along the second axis, each transformed by itself.
    """

    def __init__(
        self, grid: tuple[int, int, int], length: int, periodic: bool, sets: int = 1
    ) -> None:
        self.fft, self.threads = library(), thread_count()
        self.grid, self.length, self.periodic, self.sets = grid, length, periodic, sets
        # By shape and axis: the parts, and the threads that take them.
        self._parts: dict[tuple[tuple[int, ...], int], tuple[list[slice], int]] = {}

    def real(self, values: AnyArray, hat: AnyArray) -> None:
        """Transform real components (components, x, sets y, z and spill) into ``hat``."""
        inner = values[..., : self.grid[2]]

        def lines(part: slice) -> None:
            self.fft.real(inner[:, :, part], self.length, 1, hat[:, :, part])

        if self.periodic:
            self.across(values, hat)
            self._lines(hat, forward=True)
        else:
            parts, threads = self._divided(hat, 2)
            run_in_threads(lines, parts, threads)

    def real_inverse(self, hat: AnyArray, values: AnyArray) -> None:
        """Transform ``hat`` (destroyed) into real components, as for `real`."""
        inner = values[..., : self.grid[2]]

        def lines(part: slice) -> None:
            self.fft.real_inverse(hat[:, :, part], self.length, 1, inner[:, :, part])

        if self.periodic:
            self._lines(hat, forward=False)
            self.across_inverse(hat, values)
        else:
            parts, threads = self._divided(hat, 2)
            run_in_threads(lines, parts, threads)

    def across(self, values: AnyArray, hat: AnyArray) -> None:
        """Transform real planes (components, planes, sets y, z and spill) along y and z."""
        values, hat = self._apart(values), self._apart(hat)
        inner = values[..., : self.grid[2]]

        def planes(part: slice) -> None:
            self.fft.real(inner[:, part], self.grid[2], 3, hat[:, part])
            self.fft.complex(True, (hat[:, part], 2))

        parts, threads = self._divided(hat, 1)
        run_in_threads(planes, parts, threads)

    def across_inverse(self, hat: AnyArray, values: AnyArray) -> None:
        """Transform ``hat`` (destroyed) into real planes, as for `across`."""
        values, hat = self._apart(values), self._apart(hat)
        inner = values[..., : self.grid[2]]

        def planes(part: slice) -> None:
            self.fft.complex(False, (hat[:, part], 2))
            self.fft.real_inverse(hat[:, part], self.grid[2], 3, inner[:, part])

        parts, threads = self._divided(hat, 1)
        run_in_threads(planes, parts, threads)

    def _apart(self, planes: AnyArray) -> Any:
        """Return planes in which each set has planes of its own."""
        return planes.reshape(len(planes), -1, self.grid[1], planes.shape[-1])

    def along(self, modes: AnyArray, forward: bool) -> None:
        """Transform complex modes (x, ..., z) along x in place."""
        self._lines(modes.reshape(1, len(modes), -1, modes.shape[-1]), forward)

    def planes(self, padded: AnyArray) -> None:
        """Transform (components, modes, y, z) along y and z in place; rows past the grid are 0.

        This runs in one thread, as does `planes_inverse`: other threads may have other modes.
        """
        # The rows of zeros need no transform along z.
        self.fft.complex(True, (padded[:, :, : self.grid[1]], 3), (padded, 2))

    def planes_inverse(self, padded: AnyArray) -> None:
        """Transform back along y and z in place; rows y past the grid are left half done."""
        self.fft.complex(False, (padded, 2), (padded[:, :, : self.grid[1]], 3))

    def _lines(self, modes: AnyArray, forward: bool) -> None:
        """Transform complex modes (components, x, y, z) along x in place."""

        def lines(part: slice) -> None:
            self.fft.complex(forward, (modes[:, :, part], 1))

        parts, threads = self._divided(modes, 2)
        run_in_threads(lines, parts, threads)

    def _divided(self, modes: AnyArray, axis: int) -> tuple[list[slice], int]:
        """Return parts of the modes' rows along an axis, and the threads that take each one."""
        if (divided := self._parts.get((modes.shape, axis))) is None:
            threads = workers(modes.size, self.threads)
            rounds = -(-modes.nbytes // (threads * PART))
            divided = cuts(modes.shape[axis], threads * rounds), threads
            self._parts[modes.shape, axis] = divided
        return divided


class DeviceTransforms:
    """Transforms of one far field by CuPy's cuFFT plans, with given strides and batches.

    Plans run one at a time and share one work area. For most lengths cuFFT needs one as large
    as the data, or twice as large.
    """

    def __init__(
        self, grid: tuple[int, int, int], length: int, periodic: bool, sets: int = 1
    ) -> None:
        import cupy
        from cupy.cuda import cufft

        self.cuda, self.cufft, self.array = cupy.cuda, cufft, cupy.ndarray
        self.grid, self.length, self.periodic, self.sets = grid, length, periodic, sets
        self.plans: dict[Any, Any] = {}
        self.work: Any = None  # the largest work area
        self.buffer: Any = None  # one component, padded along x

    def real(self, values: AnyArray, hat: AnyArray) -> None:
        """Transform real components (components, x, sets y, z and spill) into ``hat``."""
        if self.periodic and self.sets > 1:  # no library has a single plan for this
            self.across(values[..., : self.grid[2]], hat)
            for modes in hat:
                self.along(modes, True)
            return
        for part in self._parts(values):
            real, modes = values[part], hat[part]
            if self.periodic:
                self._run(self._grids_plan(real, True), real, modes, True)
                continue
            padded = self._padded(real)
            if padded is not real:
                padded[:, : self.grid[0]] = real
                padded[:, self.grid[0] :] = 0
            self._lines(padded, modes, True)

    def real_inverse(self, hat: AnyArray, values: AnyArray) -> None:
        """Transform ``hat`` (destroyed) into real components."""
        if self.periodic and self.sets > 1:
            for modes in hat:
                self.along(modes, False)
            self.across_inverse(hat, values[..., : self.grid[2]])
            return
        for part in self._parts(values):
            real, modes = values[part], hat[part]
            if self.periodic:
                self._run(self._grids_plan(real, False), real, modes, False)
                continue
            padded = self._padded(real)
            self._lines(padded, modes, False)
            if padded is not real:
                real[...] = padded[:, : self.grid[0]]

    def _parts(self, values: AnyArray) -> list[slice]:
        """Return which components are transformed at once: all, if they are small, or each."""
        if self.periodic and values[0].size <= AT_ONCE:
            return [slice(None)]
        return [slice(i, i + 1) for i in range(len(values))]

    def across(self, values: AnyArray, hat: AnyArray) -> None:
        """Transform real planes (components, planes, sets y, z) along y and z into ``hat``."""
        for planes, modes in zip(self._apart(values), self._apart(hat), strict=True):
            aligned = planes if _aligned(planes) else planes.copy()
            self._run(self._planes_plan(aligned, True), aligned, modes, True)

    def across_inverse(self, hat: AnyArray, values: AnyArray) -> None:
        """Transform ``hat`` (destroyed) into real planes."""
        for planes, modes in zip(self._apart(values), self._apart(hat), strict=True):
            aligned = planes if _aligned(planes) else planes.copy()
            self._run(self._planes_plan(aligned, False), aligned, modes, False)
            if aligned is not planes:
                planes[...] = aligned

    def _apart(self, planes: AnyArray) -> Any:
        """Return planes in which each set has planes of its own."""
        return planes.reshape(len(planes), -1, self.grid[1], planes.shape[-1])

    def columns(self, values: AnyArray, modes: AnyArray, forward: bool) -> None:
        """Transform real columns (components, x, y, layers) along x and y, or modes back.

        Modes (components, x, y / 2 + 1, layers) are destroyed on the way back.
        """
        x, y, layers = values.shape[1:]
        layouts = [
            ((x, array.strides[1] // array.strides[2]), array.strides[2] // array.itemsize, 1)
            for array in (values, modes)
        ]
        for real, hat in zip(values, modes, strict=True):
            plan = self._real_plan(real, (x, y), layouts, layers, forward)
            self._run(plan, real, hat, forward)

    def along(self, modes: AnyArray, forward: bool) -> None:
        """Transform complex modes (x, ..., z) along x in place.

        Lengths for which cuFFT takes several passes over memory are transposed for one pass.
        """
        x, lines = len(modes), modes.size // len(modes)
        direction = self.cufft.CUFFT_FORWARD if forward else self.cufft.CUFFT_INVERSE
        plan, area = self._complex_plan(modes, (x,), (lines, 1), lines)
        if area is not None and area.mem.size >= modes.nbytes:
            whole, more = self._complex_plan(modes, (x,), (1, x), lines)
            if more is None:
                rows = modes.reshape(x, lines)
                transposed = self.array((lines, x), modes.dtype, area)
                transposed[...] = rows.T
                whole.fft(transposed, transposed, direction)
                rows[...] = transposed.T
                return
        plan.fft(modes, modes, direction)

    def planes(self, padded: AnyArray, forward: bool = True) -> None:
        """Transform (components, modes, y, z) along y and z in place."""
        components, modes, y, z = padded.shape
        plan, _ = self._complex_plan(padded, (y, z), (1, y * z), components * modes)
        plan.fft(padded, padded, self.cufft.CUFFT_FORWARD if forward else self.cufft.CUFFT_INVERSE)

    def planes_inverse(self, padded: AnyArray) -> None:
        """Transform back along y and z in place."""
        self.planes(padded, forward=False)

    def _padded(self, values: AnyArray) -> Any:
        """Return ``values``, or the buffer to use in its place where x is padded."""
        if self.length == self.grid[0]:
            return values
        shape = (1, self.length, *values.shape[2:])
        if self.buffer is None or self.buffer.shape != shape:
            import cupy

            self.buffer = cupy.empty(shape, dtype=values.dtype)
        return self.buffer

    def _lines(self, values: AnyArray, modes: AnyArray, forward: bool) -> None:
        """Transform a component's lines along x into modes, or back, which destroys the modes."""
        rows = values.shape[2]
        if values.nbytes > LINES:
            # An even number: cuFFT needs real values to begin where a complex one could.
            rows = max(2, LINES * rows // values.nbytes // 2 * 2)
        for first in range(0, values.shape[2], rows):
            part = slice(first, first + rows)
            plan = self._lines_plan(values, values[:, :, part].shape[2], forward)
            self._run(plan, values[:, :, part], modes[:, :, part], forward)

    def _run(self, plan: Any, values: AnyArray, modes: AnyArray, forward: bool) -> None:
        if forward:
            plan.fft(values, modes, self.cufft.CUFFT_FORWARD)
        else:
            plan.fft(modes, values, self.cufft.CUFFT_INVERSE)

    def _grids_plan(self, values: AnyArray, forward: bool) -> Any:
        """Return the plan of whole grids (components, x, y, z and spill)."""
        y, z = self.grid[1:]
        sizes = [(self.length, y, values.shape[-1]), (self.length, y, z // 2 + 1)]
        layouts = [(size, 1, math.prod(size)) for size in sizes]
        return self._real_plan(values, (self.length, y, z), layouts, len(values), forward)

    def _lines_plan(self, values: AnyArray, rows: int, forward: bool) -> Any:
        """Return the plan of ``rows`` rows of lines along x, which start next to each other."""
        x, lines = self.length, math.prod(values.shape[2:])
        layouts = [((x,), lines, 1), ((x // 2 + 1,), lines, 1)]
        return self._real_plan(values, (x,), layouts, rows * values.shape[-1], forward)

    def _planes_plan(self, values: AnyArray, forward: bool) -> Any:
        """Return the plan of planes (planes, y, z), each of which has spill along z."""
        y, z = self.grid[1:]
        plane, stored = (step // values.itemsize for step in values.strides[:2])
        half = z // 2 + 1
        layouts = [((plane // stored, stored), 1, plane), ((y, half), 1, y * half)]
        return self._real_plan(values, (y, z), layouts, len(values), forward)

    def _real_plan(
        self,
        values: AnyArray,
        shape: tuple[int, ...],
        layouts: Sequence[Layout],
        batch: int,
        forward: bool,
    ) -> Any:
        """Return a plan between the layouts of real values and of modes."""
        key = (values.dtype, shape, *layouts, batch, forward)
        if key not in self.plans:
            double = values.dtype == np.float64
            names = ("CUFFT_D2Z", "CUFFT_Z2D") if double else ("CUFFT_R2C", "CUFFT_C2R")
            kind = getattr(self.cufft, names[0 if forward else 1])
            layout, transformed = layouts if forward else layouts[::-1]
            self.plans[key], _ = self._plan(shape, layout, transformed, kind, batch, 2)
        return self.plans[key]

    def _complex_plan(
        self, values: AnyArray, shape: tuple[int, ...], steps: tuple[int, int], batch: int
    ) -> tuple[Any, Any]:
        """Return a plan in place, and its work area or None.

        ``steps`` are between elements, and between transforms.
        """
        key = (values.dtype, shape, steps, batch)
        if key not in self.plans:
            double = values.dtype == np.complex128
            kind = self.cufft.CUFFT_Z2Z if double else self.cufft.CUFFT_C2C
            layout, last = (shape, *steps), len(shape) - 1
            self.plans[key] = self._plan(shape, layout, layout, kind, batch, last)
        plan: tuple[Any, Any] = self.plans[key]
        return plan

    def _plan(
        self,
        shape: tuple[int, ...],
        before: Layout,
        after: Layout,
        kind: int,
        batch: int,
        axis: int,
    ) -> tuple[Any, Any]:
        """Return a plan of cuFFT, and the shared work area if it needs one, else None.

        ``before`` is the layout of the values, ``after`` of their transform, up to ``axis``.
        """
        before_shape, before_stride, before_distance = before
        after_shape, after_stride, after_distance = after
        allocate, taken = self.cuda.get_allocator(), list[Any]()

        def area(size: int) -> Any:
            if not size:
                return allocate(0)
            if self.work is None or self.work.mem.size < size:
                self.work = allocate(size)
            taken.append(self.work)
            return self.work

        with self.cuda.using_allocator(area):
            plan = self.cufft.PlanNd(
                shape,
                before_shape,
                before_stride,
                before_distance,
                after_shape,
                after_stride,
                after_distance,
                kind,
                batch,
                "C",
                axis,
                shape[-1],
            )
        # cuFFT copies a plan's tables on the default stream, for which others do not wait: their
        # first transform read addresses that were not there yet.
        self.cuda.get_current_stream().wait_event(self.cuda.Stream.null.record())
        return plan, taken[-1] if taken else None


def _aligned(values: AnyArray) -> bool:
    """Return whether real values begin where a complex one could, as cuFFT needs it."""
    return bool(values.data.ptr % (2 * values.itemsize) == 0)


def transforms_of(space: ExecutionSpace) -> type[HostTransforms] | type[DeviceTransforms]:
    """Return the transforms of a space: by CuPy on a device, by `library` on the host."""
    return DeviceTransforms if space.on_device else HostTransforms
