"""`LayerPlan`: a layer of a surface at its nodes or at any targets, for many densities."""

from __future__ import annotations

from typing import Protocol, cast

from parki.core import EwaldOptions, take_options
from parki.interchange import one_of
from parki.memory import telling
from parki.surfaces.bodies import Bodies
from parki.surfaces.layer import SurfaceLayer
from parki.surfaces.near import Regularisation
from parki.typing import AnyArray, Array, ArrayT, OptionKeywords, Unpack

SIDES = {"outside": 1, "mean": 0, "inside": -1}


@telling
class LayerPlan(SurfaceLayer):
    """A layer potential: set up once, apply to many densities.

    The sum over nodes, with all images, is parki's. Pairs close to the surface are corrected, with
    images, so that values are right at any distance. Densities are per area. As with sums, nothing
    is scaled: the velocity of a single layer is the result over 8 pi mu, of a double layer over
    8 pi.

    Parameters
    ----------
    kernel : {"stokes_sl", "stokes_dl", "stokes_comb", "laplace", "laplace_dipole"}
        The third is both layers of Stokes, with densities (6, N): forces above velocities. The
        last is of dipoles along the normals.
    surface : Surface
    targets : array, shape (3, Nt), optional
        Default: the nodes. On the surface, values are those of ``side``.
    options : EwaldOptions, optional
        Or its fields as keywords. Double layers with three periods have ``dl_mean="flux"`` unless
        it is given: then the double layer of a constant is as in free space.
    want : {"u", "p", "traction"}
        Velocity (or potential), pressure for viscosity 1, or traction along ``directions``.
    side : {"mean", "outside", "inside"}
        The limit at the surface; the mean of both is the principal value.
    directions : array, shape (3, Nt), optional
        For tractions at targets. Default: the normals of the nodes.
    accuracy : float
        Error of corrections to aim at, relative to the density, for densities that the nodes
        resolve well. It chooses ``order`` and ``width``, and which pairs are corrected.
    order : int, optional
        M: corrections are regularised with an error of the width to the power 2 M + 1 (pressures
        and tractions of double layers: 2 M - 1). 6 for an accuracy of 1e-6.
    width : float, optional
        Width of the regularisation in node distances, 1.8 for 1e-6. A smaller one needs smoother
        densities, a larger one a less curved surface: it should be below half of the least radius
        of curvature.
    constants : bool
        Make double layers exact for constant densities, which takes most of their error away.

    Raises
    ------
    ParkiValueError, ParkiTypeError
    ParkiMemoryError
        If targets near the surface have more pairs than memory holds.
    """

    def __init__(
        self,
        kernel: str,
        surface: Bodies,
        targets: Array | None = None,
        options: EwaldOptions | None = None,
        *,
        want: str = "u",
        side: str = "mean",
        directions: AnyArray = None,
        accuracy: float = 1e-6,
        order: int | None = None,
        width: float | None = None,
        constants: bool = True,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        _, options = take_options(None, options, keywords)
        regularisation = Regularisation.of(
            accuracy=accuracy,
            order=order,
            width=width,
            constants=constants,
            side=SIDES[one_of("side", side, list(SIDES))],
        )
        super().__init__(
            kernel, surface, targets, options, regularisation, want=want, directions=directions
        )


class LayerKeywords(OptionKeywords, total=False):
    """Keywords of layers: see `LayerPlan`."""

    want: str
    side: str
    directions: AnyArray
    accuracy: float
    order: int | None
    width: float | None
    constants: bool


class LayerCall(Protocol):
    """A method of surfaces, by which one density makes a layer."""

    def __call__(
        self,
        density: ArrayT,
        targets: Array | None = None,
        options: EwaldOptions | None = None,
        **keywords: Unpack[LayerKeywords],
    ) -> ArrayT:
        """Return the layer of a density."""


def layer_of(kernel: str, meaning: str) -> LayerCall:
    """Return the method of surfaces that sums a kernel; its docstring says what this means."""

    def layer(
        self: Bodies,
        density: ArrayT,
        targets: Array | None = None,
        options: EwaldOptions | None = None,
        **keywords: Unpack[LayerKeywords],
    ) -> ArrayT:
        return LayerPlan(kernel, self, targets, options, **keywords)(density)

    layer.__doc__ = f"Return {meaning}: see `LayerPlan`."
    return cast(LayerCall, layer)
