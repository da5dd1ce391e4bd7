"""FGC: Fourier transform of the grid, convolution with the far-field symbol, inverse transform.

FFTs are DUCC's or SciPy's on the host and CuPy's on a device.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from parki.ewald.far.buffers import grid_buffers
from parki.ewald.far.convolution import Changed, Convolution, ModeBlock
from parki.ewald.far.mesh import EwaldMesh
from parki.ewald.split.protocol import Split
from parki.typing import AnyArray


class FGC(Convolution):
    """The Fourier grid convolution of a plan, on a whole grid.

    Parameters
    ----------
    mesh, split, sets, like
        As for `Convolution`.
    memory : array, 1-D
        Memory for the field, after the modes on the CPU: `scratch` gives the sizes of both.

    Attributes
    ----------
    field : array, shape (rows, x, sets y, z and spill)
        The far field on the grids, overwritten by each `apply`: the potential, unless the pressure
        alone is wanted; then the pressure, if it is wanted.
    """

    def __init__(
        self, mesh: EwaldMesh, split: Split, memory: Any, sets: int = 1, like: FGC | None = None
    ) -> None:
        super().__init__(mesh, split, sets=sets, like=like)
        before, _ = self.scratch(mesh, sets)
        x, y, z = mesh.stored
        size = self.rows * x * sets * y * z
        self.field = memory[before : before + size].reshape(self.rows, x, sets * y, z)
        x, y, z = mesh.padding.modes
        modes = (self.components, x, sets * y, z)
        size = 2 * math.prod(modes)
        apart = mesh.space.on_device or before >= size
        # The components that are transformed together, in order, and those transformed back.
        self.forward, self.back = (
            [slice(0, n)] if apart else [slice(first, first + 1) for first in range(n)]
            for n in (self.inputs, self.rows)
        )
        if mesh.space.on_device:
            declared = grid_buffers(mesh.task, mesh.padding, mesh.stored, sets)
            self.hat = self.xp.empty(*declared["modes"])
        else:
            self.hat = memory[:size].view(self.complex_type).reshape(modes)

    @staticmethod
    def scratch(mesh: EwaldMesh, sets: int = 1) -> tuple[int, int]:
        """Return the numbers in memory before the grids, for modes on the CPU, and in the grids.

        If there are many modes, they overwrite transformed components one after the other.
        """
        declared = grid_buffers(mesh.task, mesh.padding, mesh.stored, sets)
        before = 0 if mesh.space.on_device else int(declared["modes"].shape[0])
        return before, int(math.prod(declared["grid"].shape))

    def apply(
        self,
        grid: AnyArray,
        plane: AnyArray = None,
        sums: dict[int, Any] | None = None,
        changed: Changed | None = None,
    ) -> Any:
        """Return the far field on the grids for spread densities (components, x, sets y, z).

        ``plane`` replaces the grids' modes (0, 0, 1), (0, 0, 2), ...: see `PlaneModes`.
        Its shape is (2, sets, modes), for components 0 and 1, or (1, sets, modes).
        ``sums`` and ``changed`` are as for `multiply`.
        """
        for c in self.forward:
            self.transforms.real(grid[c], self.hat[c])
        if self.mesh.periodicity == 3:
            self.multiply(self.blocks[0], self.hat, sums=sums, changed=changed)
        else:
            self.planes(self.hat, plane, sums, changed)
        for c in reversed(self.back):
            self.transforms.real_inverse(self.hat[c], self.field[c])
        if self.mesh.periodicity == 3:
            self._wrap()
        return self.field

    def brownian_noise(self, grid: AnyArray) -> Any:
        """Return the field of white noise on the grids, whose covariance is this convolution.

        With three periodic axes alone. The transforms of white noise are white, and the modes are
        multiplied by the root of what `apply` multiplies them by.
        """
        self.transforms.real(grid, self.hat)
        block = self.blocks[0]
        if self._root is None:
            self._root = self._of_root(block)
        self.multiply(replace(block, multiplier=self._root), self.hat)
        self.transforms.real_inverse(self.hat, self.field)
        self._wrap()
        return self.field

    def _wrap(self) -> None:
        """Repeat the first columns of the fields after the last ones."""
        n, spill = self.mesh.padding.grid[2], self.mesh.spill
        self.mesh.space.adapter.copy(self.field[..., n:], self.field[..., :spill])

    def ending_kernels(self, mesh: EwaldMesh, split: Split) -> Any:
        """Return the transforms that `fill` needs, for which there may be no memory.

        None if no kernel ends.
        """
        ends = [block for block in self.whole if block.ending is not None]
        return self._ending(mesh, split, ends[0].first, ends[-1].last) if ends else None

    def fill(self, mesh: EwaldMesh, ending: Any) -> None:
        """Compute the multiplier again, in the same memory, for a grid whose tilts have changed."""
        self.mesh, done = mesh, 0
        for block in self.whole:
            if block.ending is not None:
                block.ending[...] = ending[done : done + len(block.ending)]
                done += len(block.ending)
            block.stale = True
            block.fill()
        if self._root is not None:
            self._root[...] = self._of_root(self.whole[0])

    def _of_root(self, block: ModeBlock) -> Any:
        """Return the multiplier M k^2 (I - k k / k^2) as a product with itself, over k^2."""
        count, lattice = math.prod(block.lengths), self.mesh.solver_box.lattice
        name, waves = "k" if lattice.tilted else "square", []
        for axis, size in enumerate(block.multiplier.shape):
            shape = [1, 1, 1]
            shape[axis] = -1
            waves.append(block.arguments[f"{name}{axis}"][:size].reshape(shape))
        if lattice.tilted:
            waves = [k**2 for k in lattice.waves(waves)]
        square: Any = sum(waves)
        square = self.xp.where(square > 0, square, 1)
        return self._no_nyquist(self.xp.maximum(block.multiplier, 0) / (square * count), block)

    def _no_nyquist(self, square: AnyArray, block: ModeBlock) -> Any:
        """Return the root of a multiplier, and zeros at Nyquist indices."""
        root = self.xp.sqrt(square)
        for axis, n in enumerate(block.lengths):
            if n % 2 == 0:  # there odd factors are 0, and the product is no square
                index: list[Any] = [slice(None)] * 3
                index[axis] = n // 2
                root[tuple(index)] = 0
        return root.astype(self.mesh.dtype)
