"""`Convolution`: modes times the far-field symbol, with transforms of the padded directions.

The first direction is transformed before, on a grid without padding in the other directions. Its
modes are then taken in blocks: each is padded in the free directions, transformed, multiplied,
transformed back and cropped. So the padded grid never exists as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from parki.ewald.far import multiplier, truncated
from parki.ewald.far.buffers import (
    by_many,
    complex_type,
    components_of,
    convolution_buffers,
    planes_in_blocks,
)
from parki.ewald.far.mesh import EwaldMesh
from parki.ewald.far.multiplier import cropped
from parki.ewald.far.sizes import FFT_LEAST, parts, sizes_of, wanted
from parki.ewald.far.transforms import transforms_of
from parki.ewald.split.protocol import Split
from parki.ewald.task import Task
from parki.interchange import real_name
from parki.runtime import Kernel, load
from parki.runtime.forks import cached_property, cuts, run_in_threads
from parki.settings import MOST_THREADS
from parki.typing import AnyArray


@dataclass
class StrainTables:
    """How the multiplier of a block changes with the box, for a `FarStrain`.

    Attributes
    ----------
    slope : array
        The multiplier, differentiated by the square of k along periodic directions.
    times0, times2 : array
        How many modes a mode stands for, by its places along the first axis and the last.
    curvature : array or None
        Its second derivative, where strains were asked for twice.
    curved : bool
        Whether the second derivative is of this box.
    """

    slope: Any
    times0: Any
    times2: Any
    curvature: Any = None
    curved: bool = False


@dataclass
class ModeBlock:
    """Modes ``first`` to ``last - 1`` of the first axis, and their multiplier, to `fill` again.

    By the transforms ``ending`` of kernels that end, unless there are none. ``strain`` is
    there once a `FarStrain` has prepared it, and ``stale`` in another box. ``shape`` and
    ``full`` are how many modes there are along each axis, and at half of which lengths the
    multiplier is folded.
    """

    first: int
    last: int
    lengths: tuple[int, int, int]
    shape: tuple[int, ...]
    full: tuple[int, ...]
    multiplier: Any
    fill: Callable[[], None]
    arguments: dict[str, Any]
    ending: Any = None
    strain: StrainTables | None = None
    stale: bool = False
    whole: ModeBlock | None = None  # of which this is a part

    @property
    def modes(self) -> int:
        """Padded modes of one component."""
        return (self.last - self.first) * self.lengths[1] * self.lengths[2]


Changed = Callable[[ModeBlock], ModeBlock]


class Convolution:
    """The convolution in Fourier space, with transforms of the padded directions.

    Parameters
    ----------
    mesh : EwaldMesh
        Mesh of the whole box.
    split : Split
    modes : tuple of 2 ints, optional
        First mode, and last + 1, to convolve. They are modes of the first axis, or of the second
        one with three periodic directions. Default: all.
    sets : int
        Number of grids to convolve at a time. They lie side by side along the second axis.
    like : Convolution, optional
        Another convolution on the mesh, whose multiplier is shared.

    Attributes
    ----------
    inputs, rows, components : int
        Numbers of components that are spread, that are transformed back, and the larger of the two.
    """

    def __init__(
        self,
        mesh: EwaldMesh,
        split: Split,
        modes: tuple[int, int] | None = None,
        sets: int = 1,
        like: Convolution | None = None,
    ) -> None:
        self.mesh, self.factor, self.sets = mesh, mesh.solver_box.factor, sets
        self.boxes = mesh.solver_box.lattice.boxes
        xp = self.xp = mesh.task.xp
        self.inputs, self.rows = components_of(mesh.task)
        self.components = max(self.inputs, self.rows)
        self.together = mesh.task.sum.symbol.grids
        transforms = transforms_of(mesh.space)
        length = mesh.padding.local[0]
        self.transforms = transforms(mesh.padding.grid, length, mesh.periodicity == 3, sets)
        self.complex_type, self.modes = complex_type(mesh.task), modes
        if like is None:
            what = modes, sets
            if mesh.blocks[0] != what:  # which the mesh keeps for all plans of a set-up
                mesh.blocks = what, self._blocks(split)
        self.whole: list[ModeBlock] = mesh.blocks[1] if like is None else like.whole
        self.blocks = self.whole
        self.convolve = self.kernel(mesh.task)
        self._root: Any = None  # a multiplier for noise
        self.threads, padding = 1, mesh.padding
        if mesh.periodicity < 3:
            _, self.threads = planes_in_blocks(mesh.task, padding, sets, modes)
            self.blocks = [part for block in self.whole for part in self._parts(block)]
        declared = convolution_buffers(mesh.task, padding, sets, modes)
        count, size = declared["padded block"].shape
        # One for each thread at work.
        self.padded = [xp.empty(size, dtype=self.complex_type) for _ in range(count)]

    @staticmethod
    def kernel(task: Task) -> Kernel:
        """Return the convolution kernel."""
        constants = {"REAL": real_name(task.dtype), **task.sum.fgc, **wanted(task.want)}
        if task.tilted:
            constants["TILTED"] = True
        if task.sum.symbol.alpha and task.periodicity == 2:
            constants["PLANE"] = True
        return load("fgc", "convolve", task.space, constants, executor=task.executor)

    @cached_property
    def of_strain(self) -> Kernel:
        """The kernel of sums over modes, of densities of one component: see `FarStrain`."""
        real, task = real_name(self.mesh.task.dtype), self.mesh.task
        return load("fgc", "strain", task.space, executor=task.executor, REAL=real)

    # ------------------------------------------------------------------ set-up
    def _blocks(self, split: Split) -> list[ModeBlock]:
        mesh, padding = self.mesh, self.mesh.padding
        if mesh.periodicity == 3:
            modes = padding.grid[0]
            return [self._block(split, 0, modes, padding.plain)]
        bounds, _ = planes_in_blocks(mesh.task, padding, self.sets, self.modes)
        begin = bounds[0][0] if bounds else 0
        end = max((last for _, last, _, ends in bounds if ends), default=begin)
        ending: Any = self._ending(mesh, split, begin, end) if end > begin else None
        blocks = []
        for first, last, sizes, ends in bounds:
            rows = self.rows_of(slice(first - begin, last - begin))
            of_block = ending[rows] if ends else None
            blocks.append(self._block(split, first, last, sizes, of_block))
        return blocks

    @staticmethod
    def _ending(mesh: EwaldMesh, split: Split, begin: int, end: int) -> Any:
        """Return the transforms of kernels that end, of some modes of the first axis."""
        padding = mesh.padding
        waves = [mesh.waves(axis, n) for axis, n in enumerate(padding.local)]
        waves[0], basis = waves[0][begin:end], mesh.solver_box.lattice.basis
        for axis in (2,) if mesh.task.tilted else (1, 2):
            waves[axis] = waves[axis][: padding.local[axis] // 2 + 1]
        return cropped(
            mesh.task,
            padding,
            mesh.box,
            mesh.steps,
            waves,
            screening=split.screening or split.alpha,
            basis=basis,
        )

    def _block(
        self, split: Split, first: int, last: int, lengths: tuple[int, int, int], ending: Any = None
    ) -> ModeBlock:
        """Return a block; ``ending`` are the transforms of truncated kernels."""
        mesh, xp, lattice = self.mesh, self.xp, self.mesh.solver_box.lattice
        lengths, basis = (mesh.padding.local[0], lengths[1], lengths[2]), lattice.basis
        rows = [np.arange(n) for n in lengths]
        rows[0], unfolded = np.arange(first, last), basis is not None  # along the second axis
        if self.modes is not None and mesh.periodicity == 3:
            rows[1], unfolded = np.arange(*self.modes), True
        # Wavenumbers, and what undoes spreading and gathering, times the cell's edge.
        waves, window, arguments = [], [], {}
        for axis, (n, h, row) in enumerate(zip(lengths, mesh.steps, rows, strict=True)):
            k = mesh.waves(axis, n)[row]
            half = slice(None if axis == 0 or (axis == 1 and unfolded) else n // 2 + 1)
            undone = 1 / (h * mesh.window.fourier(2 * np.pi / n * np.arange(n // 2 + 1)) ** 2)
            if basis is not None and n % 2 == 0:  # whose sign is open
                undone[n // 2] = 0
            window.append(undone[np.minimum(row, n - row)[half]])
            waves.append(k[half] if basis is not None else abs(k[half]))
            arguments[f"square{axis}"] = xp.asarray(k**2, dtype=mesh.dtype)
            # An odd factor has no place at the Nyquist index.
            arguments[f"k{axis}"] = xp.asarray(np.where(2 * row == n, 0, k), dtype=mesh.dtype)
        # The transforms do not scale.
        window[0] = window[0] * (self.factor / math.prod(lengths))
        exact = None if basis is None else mesh.solver_box.basis_on(mesh.space, np.float64)
        values, fill = multiplier.tabulate(mesh.task, split, waves, window, ending, exact)
        if split.alpha:
            arguments["alpha2"] = split.alpha**2
            arguments["plane"] = xp.zeros(1, dtype=mesh.dtype)
            if mesh.periodicity == 2 and first == 0:
                arguments["plane"] = self._plane(split, waves, window, exact)
        modes = [last - first, lengths[1], lengths[2]]
        if mesh.periodicity == 3:
            modes[2] = lengths[2] // 2 + 1
        folded = list(lengths)  # lengths at half of which the multiplier is folded
        if unfolded:
            modes[1], folded[1] = rows[1].size, 2 * rows[1].size
        if basis is not None:
            arguments["basis"] = mesh.solver_box.basis_on(mesh.space, mesh.dtype)
        arguments["shape"] = xp.asarray(modes, dtype=np.int32)
        arguments["full"] = xp.asarray(folded, dtype=np.int32)
        return ModeBlock(
            first=first,
            last=last,
            lengths=lengths,
            shape=tuple(modes),
            full=tuple(folded),
            multiplier=values,
            fill=fill,
            arguments=arguments,
            ending=ending,
        )

    def _plane(self, split: Split, waves: list[Any], window: list[Any], basis: AnyArray) -> Any:
        """Return M times ``k^2 + alpha^2`` of the modes that do not change along the plane.

        There M has the potential of screened charges alone: see `truncated.transforms`.
        """
        task, padding = self.mesh.task, self.mesh.padding
        across = abs(waves[2])
        line = 2 * truncated.transforms(
            task,
            np.zeros(1),
            across,
            largest=float(across[-1]),
            padding=padding,
            volume=padding.period,
            order=1,
        )
        rows = [waves[0][:1], waves[1][:1], waves[2]]
        factors = [window[0][:1], window[1][:1], window[2]]
        line = self.xp.asarray(line).reshape(1, 1, -1)
        values, _ = multiplier.tabulate(task, split, rows, factors, line, basis)
        return values.reshape(-1)

    def _parts(self, block: ModeBlock) -> list[ModeBlock]:
        """Return a block of planes as parts, of which a CPU's thread or a device convolves one.

        Blocks of another convolution have more planes than there is memory for, if it has fewer
        grids.
        """
        planes, task = block.last - block.first, self.mesh.task
        size = self.components * self.sets * self.complex_type.itemsize * block.modes
        if by_many(task):
            count = parts(size, self.threads)
        else:
            fitting = max(1, sizes_of(task.space.on_device).block * planes // size)
            if planes <= fitting:
                return [block]
            count = -(-planes // fitting)
        blocks = []
        for part in cuts(planes, count):
            arguments = dict(block.arguments)
            for name in ("k0", "square0"):
                arguments[name] = arguments[name][part]
            modes = (part.stop - part.start, *block.lengths[1:])
            arguments["shape"] = self.xp.asarray(modes, dtype=np.int32)
            blocks.append(
                ModeBlock(
                    first=block.first + part.start,
                    last=block.first + part.stop,
                    lengths=block.lengths,
                    shape=modes,
                    full=block.full,
                    multiplier=block.multiplier[self.rows_of(part)],
                    fill=block.fill,
                    arguments=arguments,
                    whole=block,
                )
            )
        return blocks

    def rows_of(self, modes: slice) -> slice:
        """Return the rows of a multiplier, of all systems, for modes along the first axis."""
        return slice(self.boxes * modes.start, self.boxes * modes.stop)

    # ------------------------------------------------------------------ apply
    def multiply(
        self,
        block: ModeBlock,
        hat: AnyArray,
        alone: bool = False,
        sums: dict[int, Any] | None = None,
        changed: Changed | None = None,
    ) -> None:
        """Convolve a block of modes in place; ``hat`` is complex (components, ...), contiguous.

        If ``alone``, in this thread; else in all threads of the CPU. ``sums`` takes what the block
        has of `FarStrain.of_modes`, by its first mode. If ``changed`` is given, its result for the
        block takes the place of that.
        """
        real = hat.reshape(self.components, -1).view(self.mesh.dtype)
        threads = 1 if alone or real.size < FFT_LEAST else MOST_THREADS
        block = block if changed is None else changed(block)
        if sums is not None:
            sums[block.first] = self._summed(block, real, threads)
        self.convolve(
            real.shape[1] // 2 // self.together,
            threads,
            arguments=block.arguments,
            hat=real,
            multiplier=block.multiplier,
            unit=self.factor ** (self.mesh.task.sum.pair.power - 1),
            inverse_unit=self.factor,
            sets=self.sets // self.together,
            systems=self.boxes,
        )

    def _summed(self, block: ModeBlock, real: AnyArray, threads: int) -> Any:
        """Return the sums of the kernel ``strain`` over a block of modes, shape (7, sets)."""
        whole, count = block.whole or block, block.last - block.first
        strain, part = cast(StrainTables, whole.strain), block.first - whole.first
        planes = slice(part, part + count)
        tables = {"rise": strain.slope[self.rows_of(planes)], "times0": strain.times0[planes]}
        tables |= {"times2": strain.times2}
        tables |= {name: block.arguments[name] for name in ("shape", "full", "k0", "k1", "k2")}
        y = block.arguments["k1"].size
        sums = self.xp.empty((7, count * self.sets * y))
        self.of_strain(
            sums.shape[1],
            threads,
            arguments=tables,
            hat=real,
            multiplier=block.multiplier,
            sets=self.sets,
            systems=self.boxes,
            sums=sums,
        )
        return sums.reshape(7, count, self.sets, y).sum(axis=(1, 3))

    def planes(
        self,
        hat: AnyArray,
        plane: AnyArray,
        sums: dict[int, Any] | None = None,
        changed: Changed | None = None,
    ) -> None:
        """Convolve modes (components, part, sets y, z) of the first axis in place.

        They are padded, transformed along y and z, and back. ``plane`` is as for `FGC.apply`, and
        ``sums`` and ``changed`` as for `multiply`.
        """
        _, y, z = self.mesh.padding.grid
        hat = hat.reshape((*hat.shape[:2], self.sets, y, z))
        work = partial(self._planes, hat, plane, sums, changed)
        run_in_threads(work, self.blocks, self.threads)

    def _planes(
        self,
        modes: AnyArray,
        plane: AnyArray,
        sums: dict[int, Any] | None,
        changed: Changed | None,
        block: ModeBlock,
    ) -> None:
        """Convolve a block of the modes, of which the first ones are the first block's."""
        _, y, z = self.mesh.padding.grid
        begin, count, sets = self.blocks[0].first, block.last - block.first, self.sets
        hat = modes[:, block.first - begin : block.last - begin]
        memory = self.padded.pop()
        try:
            shape = (self.components, count, sets, *block.lengths[1:])
            padded = memory[: math.prod(shape)].reshape(shape)
            spread = padded[: self.inputs]
            spread[..., :y, :z] = hat[: self.inputs]
            spread[..., :y, z:] = 0
            spread[..., y:, :] = 0
            planes = padded.reshape((self.components, count * sets, *block.lengths[1:]))
            self.transforms.planes(planes[: self.inputs])
            if plane is not None and block.first == 0:
                spread[: len(plane), 0, :, 0, 1 : plane.shape[2] + 1] = plane
                spread[: len(plane), 0, :, 0, -plane.shape[2] :] = plane[..., ::-1].conj()
            self.multiply(block, padded, self.threads > 1, sums, changed)
            self.transforms.planes_inverse(planes[: self.rows])
            hat[: self.rows] = padded[: self.rows, ..., :y, :z]
        finally:
            self.padded.append(memory)
