"""`Plan`: the work that depends on geometry and options, done once; apply it to many densities.

This is what users see, and `parki.ewald.placement.any_plan` is what it does.
"""

from __future__ import annotations

from typing import Any

from parki.ewald.geometry.own_boxes import of_first, own_boxes
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.placement.any_plan import AnyPlan
from parki.ewald.points import take_options
from parki.ewald.points.widths import take_widths
from parki.typing import (
    AnyKernel,
    Array,
    Boxes,
    OfPoints,
    Periodicities,
    SumKeywords,
    Unpack,
    Wanted,
)


class Plan(AnyPlan[Wanted]):
    """An Ewald sum for fixed points: set up once, apply to many densities.

    Parameters
    ----------
    kernel : str
        What to sum: a name of `parki.typing.KernelName`, or what `parki.kernel` returns.
    trg, src : array, shape (3, Nt) and (3, Ns), float32 or float64
        Targets and sources, in the unit of ``options.box``; NumPy, CuPy, or anything with DLPack
        (PyTorch, JAX) or ``__cuda_array_interface__``, any strides. Points outside the box are
        wrapped along periodic axes; ``dl_mean="flux"`` takes them as they are. Not modified. Pass
        the same object twice when targets are sources. Without sources the sums are zero.
    norms : array, shape (3, Ns), optional
        Normals at the sources; for the double layer only.
    options : EwaldOptions
        May take the place of ``norms`` for kernels without normals.
    **keywords
        The fields of `EwaldOptions`, instead of ``options``: ``periodicity=3, box=[1, 1, 1]``.
    want : {"u", "p", "grad_u", "stress"}, or a tuple of these
        What a call returns: the velocity (or Laplace's potential), the pressure, the gradient
        ``[i, j] = d u_i / d x_j``, the stress ``-p I + grad u + (grad u)^T``; for a tuple, a tuple
        of arrays in its order. Kernels and parameters depend on it. Laplace has no pressure and no
        stress; the pressure of rotlets is zero. With three periodic directions and a net force,
        pressure and stress lack the mean pressure gradient ``8 pi (sum f) / V``.
    systems : sequence of int, or tuple of two, optional
        For many systems that have nothing to do with each other, with the tolerance in common:
        where the points of each begin, and last how many points there are. Or one such sequence for
        targets and one for sources. All systems are summed at once.
    boxes : array, shape (S, 3) or (S, 3, 3), optional
        Edge lengths or lattice vectors for each of S systems, in place of ``box``. Systems with
        equal boxes are summed at once. In float64, with three periodic axes, so are boxes of like
        size, for all sums without a length of their own. A free axis has None for the extent of the
        system's points, or 0 in arrays.
    periodicities : sequence, or array of shape (S,) or (S, 3), optional
        The periodicity of each system, in place of that of the options: a number of axes, or three
        truth values. See ``docs/boxes.md``.
    exclude : array of int, shape (N,), or tuple of two, (Nt,) and (Ns,), optional
        Labels, such as the number of a body, a panel or a molecule: of a target and a source with
        the same label, one image is left out, as if it were not there. It is the nearest one, or
        one of two that are equally near; ``exclude_image="given"`` takes the positions as they are
        given. A negative number is no label. One array serves targets and sources. A label takes a
        time that grows with the product of its targets and sources. Images stay: those that a wall
        mirrors, and what else a composite moves. Not for sums of blobs or spheres, or over ranks.

    Attributes
    ----------
    box : ndarray, shape (3,) or (3, 3)
        Edge lengths or lattice vectors, of the options or the extent of the points.
    origin : ndarray, shape (3,)
        Corner of the box.
    parameters : MethodParameters
        What was chosen; `describe` prints it.
    memory : Memory
        Bytes that the plan needs, by part, as predicted for the points it was made of.
    pipeline : Pipeline
        The stages for the plan's points.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible: shape, dtype, NaN, mixed devices, a point outside the box
        along a free axis, a tolerance the dtype cannot hold. Before any work.
    ParkiMemoryError
        If the plan needs more memory than is free; with what would fit.

    Notes
    -----
    Near a wall, of a composite and with ``boxes``, a plan has several sums, its ``terms``. What
    it does is the same; the sum of the first term has ``parameters``, ``setup`` and ``pipeline``.

    Examples
    --------
    >>> import numpy as np, parki
    >>> rng = np.random.default_rng(0)
    >>> points, forces = rng.random((3, 1000)), rng.standard_normal((3, 1000))
    >>> options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-6)
    >>> plan = parki.Plan("stokes_sl", points, points, options)
    >>> plan(forces).shape
    (3, 1000)
    """

    def __init__(
        self,
        kernel: AnyKernel,
        trg: Array,
        src: Array,
        norms: Array | EwaldOptions | None = None,
        options: EwaldOptions | None = None,
        *,
        want: Wanted = "u",  # type: ignore[assignment]
        systems: OfPoints | None = None,
        boxes: Boxes | None = None,
        periodicities: Periodicities | None = None,
        exclude: OfPoints | None = None,
        **keywords: Unpack[SumKeywords],
    ) -> None:
        system_boxes = own_boxes(boxes, periodicities)
        kernel, norms, options, others = take_widths(
            kernel, keywords, trg, src, norms, options, in_boxes=system_boxes is not None
        )
        norms, options = take_options(norms, options, others, first=of_first(system_boxes))
        super().__init__(
            SERIAL,
            kernel,
            trg,
            src,
            norms,
            options,
            want=want,
            systems=systems,
            exclude=exclude,
            boxes=system_boxes,
        )

    def _arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        cloud, systems, labels = self.points, self.points.systems, self.points.labels
        inputs = self._request.kernel, cloud.trg, cloud.src, cloud.norms, self.options
        return inputs, {
            "want": self.want,
            "systems": systems and (systems.targets, systems.sources),
            "exclude": labels and (labels.targets, labels.sources),
            "boxes": self._placement.boxes,
            "periodicities": None,  # the boxes have them
        }
