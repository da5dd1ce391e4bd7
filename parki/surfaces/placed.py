"""`PlacedLayer`: what follows from the places of bodies, with the corrections of a layer there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from parki.surfaces.bodies import Bodies
from parki.surfaces.corrections import Near
from parki.surfaces.kernels import Layer
from parki.surfaces.self_matrix import OwnPart, product, self_products
from parki.typing import AnyArray


class PlacedLayer(NamedTuple):
    """What follows from places of bodies, and moves with the points of the sum over nodes."""

    surface: Bodies
    layer: Layer
    e: Any  # directions of tractions, shape (3, Nt)
    self_parts: list[OwnPart]
    near: Near
    excluded: Any  # the node whose pair with each target the sum leaves out, or None

    def corrections(self, q: AnyArray, transposed: bool = False) -> Any:
        """Return the corrections (k, rows, Nt) of densities (k, columns, N).

        Transposed, densities of values at the targets.
        """
        near, surface = self.near, self.surface
        rows = self.layer.columns if transposed else self.layer.rows
        count = surface.areas.size if transposed else self.e.shape[-1]
        exact = np.result_type(q.dtype, *(part.frames.dtype for part in self.self_parts))
        corrections = surface.xp.zeros((len(q), rows, count), exact)
        if not len(q):
            return corrections
        flat, own = q.reshape(len(q), -1), surface.xp.ascontiguousarray(q, exact)
        self_products(surface.space, self.self_parts, own, corrections, transposed)
        for matrix in near.nodes:
            corrections += product(matrix, flat, transposed).reshape(corrections.shape)
        if near.finer is not None:
            vectors = flat if transposed else self._finer(q).reshape(len(q), -1)
            part = product(near.finer, vectors, transposed).reshape(len(q), rows, -1)
            corrections += self._finer(part, transposed=True) if transposed else part
        return corrections

    def _finer(self, q: AnyArray, transposed: bool = False) -> Any:
        """Return densities (k, columns, N) at the finer nodes of all bodies; or transposed."""
        surface, xp = self.surface, self.surface.xp
        parts: list[Any] = [None] * surface.kinds.size
        starts = surface.finer_starts if transposed else surface.systems
        for shape, _, bodies in surface.groups:
            matrix = surface.on_device(shape, "finer.interpolation.matrix")
            matrix = matrix if transposed else matrix.T
            index = xp.asarray(starts[bodies][:, None] + np.arange(len(matrix)))
            values = q[:, :, index] @ matrix
            for n, body in enumerate(bodies):
                parts[body] = values[:, :, n]
        return xp.concatenate(parts, axis=-1)
