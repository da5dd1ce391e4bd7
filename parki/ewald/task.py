"""`Task`: what is asked of a sum, independent of its points."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from parki.ewald.geometry.axes import AxisPermutation
from parki.ewald.lattice import Standing
from parki.ewald.options import EwaldOptions
from parki.ewald.sums import SUMS, stress
from parki.ewald.sums.record import Interaction
from parki.runtime import ExecutionSpace
from parki.runtime.forks import cached_property


@dataclass(frozen=True)
class Task:
    """A sum, independent of its points.

    Attributes
    ----------
    kernel : str
    space : ExecutionSpace
    dtype : dtype
        Dtype of the arithmetic; arrays may have another (`EwaldOptions.precision`).
    options : EwaldOptions
        As they were given. The solver takes their axes in the order ``options.axes``.
    names : tuple of str
        The wanted results: "u", "p", "grad_u", "stress"; and "grad_tensor" of tensor targets.
    labelled : bool
        Whether points have labels, and pairs of equal ones are left out.
    """

    kernel: str
    space: ExecutionSpace
    dtype: Any
    options: EwaldOptions
    names: tuple[str, ...] = ("u",)
    labelled: bool = False

    @cached_property
    def sum(self) -> Interaction:
        """The record of the kernel."""
        return SUMS[self.kernel]

    @cached_property
    def told_to_ranks(self) -> dict[str, Any]:
        """What every rank must ask for, by the names that users know."""
        options = {field.name: getattr(self.options, field.name) for field in fields(self.options)}
        sum_of_task = {"kernel": self.kernel, "want": self.names, "dtype": self.dtype}
        return sum_of_task | {"space": self.space.name} | options

    @cached_property
    def of_overlap(self) -> Task:
        """The task of `Interaction.overlap_correction`."""
        return replace(self, kernel=self.sum.overlap_correction)

    @cached_property
    def want(self) -> tuple[str, ...]:
        """The results to compute: parts of the wanted ones that are not zero everywhere."""
        return tuple(name for name in stress.parts(self.names) if self.sum.terms[name])

    @cached_property
    def slopes(self) -> bool:
        """Whether the near field's kernel of "u" sums the gradient, too."""
        return not self.labelled and self.sum.slopes(self.want, self.space.on_device)

    @cached_property
    def periodicity(self) -> int:
        """The number of periodic axes, which come first in the solver."""
        return sum(self.options.periodic)

    @cached_property
    def tensors(self) -> bool:
        """Whether targets have tensors."""
        return "grad_tensor" in self.names

    @cached_property
    def flux(self) -> bool:
        """Whether the mean of a double layer is the one without flux through the box."""
        return self.sum.normals and self.options.dl_mean == "flux"

    @cached_property
    def mixed(self) -> bool:
        """Whether arrays are float64 while most of the arithmetic is float32."""
        return self.options.precision == "mixed"

    @cached_property
    def array_dtype(self) -> np.dtype[Any]:
        """The dtype of the user's arrays."""
        return np.dtype(np.float64 if self.mixed else self.dtype)

    @cached_property
    def finer(self) -> bool:
        """Whether positions are float64 while most of the arithmetic is float32.

        In mixed precision, and in tilted boxes: turning and wrapping would round single ones.
        """
        return self.mixed or (self.tilted and self.dtype == np.float32)

    @cached_property
    def order(self) -> AxisPermutation:
        """From the user's axes to the solver's."""
        cell = self.options.cell
        return AxisPermutation(self.options.axes, cell and cell.rotation, self.finer)

    @cached_property
    def tilted(self) -> bool:
        """Whether the box has lattice vectors, not lengths."""
        return self.options.cell is not None

    @cached_property
    def in_boxes(self) -> bool:
        """Whether each system has a box of its own."""
        return isinstance(self.options.box, Standing)

    def alike(self, other: Task) -> bool:
        """Return whether the boxes of two tasks are equal, or both tilted."""
        return (self.tilted and other.tilted) or self.options.box == other.options.box

    @cached_property
    def executor(self) -> str | None:
        """The executor of the kernels."""
        return self.options.expert.executor

    @cached_property
    def xp(self) -> Any:
        """The array module of the space."""
        return self.space.array_module

    def tolerance(self, sources: int) -> float:
        """Return the tolerance of random densities, for as many sources."""
        return self.options.random_tolerance(sources, self.sum.source_components, self.dtype)
