"""Types of what users pass, for type checkers: ``mypy --strict`` then knows names and results.

What is wanted decides what comes back: ``want="p"`` gives one array, a tuple gives a tuple.
Nothing here computes anything. Options may be spelt in more ways than `OptionKeywords` says, such
as "GM-1D" and "cuda"; type checkers take one spelling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NewType, Protocol, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parki.runtime import ExecutionSpace

if TYPE_CHECKING:
    # These are newer than Python 3.10; type checkers bring them.
    from typing_extensions import TypeVar
    from typing_extensions import Unpack as Unpack

    Wanted = TypeVar("Wanted", "ResultName", "tuple[ResultName, ...]", default="ResultName")
else:
    from typing import TypeVar

    Wanted = TypeVar("Wanted")
    Unpack = type  # named by annotations alone

__all__ = [
    "AnyArray",
    "AnyKernel",
    "Array",
    "ArrayModule",
    "ArrayT",
    "DType",
    "DerivedBy",
    "InputName",
    "KernelName",
    "KernelWithParameters",
    "OptionKeywords",
    "ResultName",
    "Seed",
    "SpaceName",
    "SumKeywords",
    "Wanted",
]

KernelName = Literal[
    "laplace",
    "stokes_sl",
    "stokes_dl",
    "stokes_comb",
    "stokes_rotlet",
    "stokes_dipole",
    "laplace_dipole",
]
KernelWithParameters = NewType("KernelWithParameters", str)  # what `parki.kernel` returns
AnyKernel = KernelName | KernelWithParameters
ResultName = Literal["u", "p", "grad_u", "stress"]
InputName = Literal["trg", "src", "dens", "norms", "trg_epsilon", "src_epsilon"]
DerivedBy = Literal[InputName, "box", "lattice", "kappa", "alpha", "epsilon"]
SpaceName = Literal["OpenMP", "Serial", "Cuda", "HIP", "CPU", "Threads", "GPU"]
# Values of options.
Densities = Literal["random", "any"]
Precision = Literal["full", "mixed"]
Split = Literal["auto", "prolate", "hasimoto"]
Radial = Literal["polynomial", "erfc", "rational"]
Mean = Literal["zero", "flux"]
ExcludeImage = Literal["nearest", "given"]
# "no-slip" is for flows; for charges a number is the image factor of a dielectric.
Wall: TypeAlias = Literal["no-slip", "metal"] | float
# One wall, below; or the lower and the upper one.
Walls: TypeAlias = Wall | tuple[Wall | None, Wall | None] | None
MeanFlow = Literal["no-gradient", "no-flux"]
P2PMethod = Literal["auto", "tile", "staged", "gm1d", "gm2d", "sm1d", "sm2d"]
P2GMethod = Literal["auto", "owner", "tile", "base", "source", "grid", "hybrid"]
G2PMethod = Literal["auto", "target", "base", "tile"]
Executor = Literal["embedded", "pykokkos"]


class Array(Protocol):
    """An array of NumPy, CuPy, PyTorch, JAX, or another library with DLPack."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values there are along each axis."""

    @property
    def dtype(self) -> Any:
        """The library's type of a value."""


ArrayT = TypeVar("ArrayT", bound=Array)
# Such an array where it is computed with: no type checker knows what each library makes of `a + b`.
AnyArray: TypeAlias = Any
# NumPy, or a module with its functions for arrays of a device.
ArrayModule: TypeAlias = Any
# Types of the values that are summed.
DType: TypeAlias = np.dtype[np.float32] | np.dtype[np.float64]
# What ``default_rng`` of NumPy or CuPy takes: a generator that it made, or a seed.
Seed: TypeAlias = "np.random.Generator | np.random.BitGenerator | int | Sequence[int] | None"


# Numbers of points: of points that are targets and sources at once, or for targets and for sources.
OfPoints: TypeAlias = "Array | ArrayLike | tuple[Array | ArrayLike, Array | ArrayLike]"


# Edge lengths (S, 3), or lattice vectors (S, 3, 3).
Boxes: TypeAlias = "Array | ArrayLike"


# The number of periodic axes, or for each axis whether it is periodic.
Periodicity: TypeAlias = int | Sequence[bool] | NDArray[np.bool_]


# A periodicity for each system: numbers (S,), truth values (S, 3), or a list of either.
Periodicities: TypeAlias = "Array | Sequence[Periodicity]"


# Lengths along the axes, or lattice vectors; None along a free axis, for the extent of the points.
Box: TypeAlias = Sequence[float | Sequence[float] | None] | NDArray[np.float64]


class OptionKeywords(TypedDict, total=False):
    """The fields of `parki.EwaldOptions`, which every sum takes as keywords, too."""

    periodicity: Periodicity
    box: Box
    tolerance: float
    densities: Densities
    precision: Precision
    execution_space: SpaceName | ExecutionSpace | None
    cutoff: float | None
    dl_mean: Mean | None
    exclude_image: ExcludeImage | None
    wall: Walls
    mean_flow: MeanFlow | tuple[MeanFlow, MeanFlow] | None
    voltage: float | None
    deterministic: bool
    expert: Any  # `parki.Expert`, which imports this module


class SumKeywords(OptionKeywords, total=False):
    """These, and the parameters of sums, which `parki.Plan` takes as the calls do."""

    epsilon: float | OfPoints
    blob: str
    kappa: float
    alpha: float
