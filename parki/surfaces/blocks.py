"""Blocks of numbers of events and nodes, by the kernels of ``kernels/layers.py``.

They act on densities at nodes. With finer nodes, or on nodes alone, the same launches make them:
what a block has of the kernel of the sum, of a smooth one and of the regularised one is told by
factors. Then what sums of constants lack is shared among the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from parki.interchange import to_host
from parki.runtime import ExecutionSpace, Kernel, load, prepare
from parki.surfaces.kernels import LAYERS, NUMBERS, Key, Layer
from parki.surfaces.near import BEHIND, SPLIT, Events, Regularisation
from parki.typing import AnyArray

# Work items of an event, by whether they are on a device: there are too few events to fill it, and
# neighbouring items read and write neighbouring numbers.
PARTS = {False: 1, True: 16}


class Quadrature(NamedTuple):
    """Nodes that layers are summed over, on a space, in double precision.

    Attributes
    ----------
    nodes, normals : array, shape (3, N)
    areas : array, shape (N,)
    centres, frames : array, shape (3, B) and (B, 3, 3)
        Frames of the bodies, in which the nodes are; or one frame, the lab's.
    """

    nodes: Any
    normals: Any
    areas: Any
    centres: Any
    frames: Any


def in_lab(
    space: ExecutionSpace, nodes: AnyArray, normals: AnyArray, areas: AnyArray
) -> Quadrature:
    """Return the quadrature of nodes, normals and areas that are in the lab's frame."""
    xp = space.array_module
    x, n, area = (xp.asarray(array, np.float64, order="C") for array in (nodes, normals, areas))
    return Quadrature(x, n, area, xp.zeros((3, 1)), xp.asarray(np.eye(3)[None]))


@dataclass(frozen=True)
class Rows:
    """Blocks of events as the rows of a sparse matrix have them.

    Attributes
    ----------
    begins, counts : ndarray, shape (E,)
        The first pair of each event, and how many it has.
    pairs : int
        The number of all pairs.
    columns : int
        Those of a block of all parts of the layer.
    values : array, shape (rows columns pairs,)
        Results' rows one after the other, which have the events one after the other, which have
        columns one after the other.
    indices : array of the same shape, int32, optional
        Where the numbers' densities are, if these are to be written.
    found_by : array, shape (E, parts), int32, optional
        How many pairs each work item has. Default: all nodes are pairs.
    """

    begins: np.ndarray
    counts: np.ndarray
    pairs: int
    columns: int
    values: Any
    indices: Any = None
    found_by: Any = None

    @classmethod
    def of(
        cls,
        space: ExecutionSpace,
        layer: Layer,
        counts: np.ndarray,
        *,
        indexed: bool = False,
        found_by: Any = None,
    ) -> Rows:
        """Return rows for events with these numbers of pairs, whose values are to be written."""
        empty, ends = space.array_module.empty, np.cumsum(counts, dtype=np.int64)
        pairs = int(counts.sum())
        size = layer.rows * layer.columns * pairs
        indices = empty(size, np.int32) if indexed else None
        return cls(ends - counts, counts, pairs, layer.columns, empty(size), indices, found_by)

    def some(self, index: Any) -> Rows:
        """Return the rows of some events."""
        return replace(self, begins=self.begins[index], counts=self.counts[index])

    def arguments(self, space: ExecutionSpace) -> dict[str, Any]:
        """Return the arguments of kernels."""
        asarray, nothing = space.array_module.asarray, space.array_module.empty(1, np.int32)
        return {
            "begins": asarray(self.begins),
            "counts": asarray(self.counts.astype(np.int32)),
            "pairs": self.pairs,
            "columns": self.columns,
            "values": self.values,
            "indexed": int(self.indices is not None),
            "indices": nothing if self.indices is None else self.indices,
            "every": int(self.found_by is None),
            "found_by": nothing if self.found_by is None else self.found_by,
        }


def kernel(space: ExecutionSpace, name: str, key: Key | None = None) -> Kernel:
    """Return a kernel, of a layer where it depends on that."""
    constants: dict[str, Any] = {"REAL": "double"}
    if name != "expand_distance":
        constants["PARTS"] = PARTS[space.on_device]
    if key is not None:
        constants |= {"ROWS": LAYERS[key].rows, "COLUMNS": LAYERS[key].columns}
        constants |= {"LAYER": NUMBERS.index(key)} if name == "make_pairs" else {}
    return load("layers", name, space, **constants)


def kernels(space: ExecutionSpace, keys: Iterable[Key] = NUMBERS) -> Iterator[Kernel]:
    """Yield the kernels of layers that are no sums of others; by default of all."""
    for name in ("expand_distance", "count_pairs"):
        yield kernel(space, name)
    for key in keys:
        for name in ("make_pairs", "share_errors"):
            yield kernel(space, name, key)


class EventPairs:
    """Events and nodes of their bodies, for launches for one layer.

    Parameters
    ----------
    space : ExecutionSpace
    key : tuple of 2 str
        A layer that is no sum of others.
    events : Events
    points : ndarray, shape (3, E)
        Places of the events, next to the nodes.
    quadrature : Quadrature
    setting : Regularisation
    first, many : ndarray, shape (E,)
        The first node of the body of each event, and how many it has.
    body : ndarray, shape (E,), optional
        The frame that the nodes are in.
    width : ndarray, shape (E,), optional
        Width of the regularisation; zero for none.
    radius : ndarray, shape (E,), optional
        Distances at which nodes are too far away to be pairs.
    close : ndarray, shape (E,), optional
        Distances up to which the sum leaves pairs out. Default: it leaves out pairs at r = 0.
    excluded, node : ndarray, shape (E,), optional
        The node whose pair the sum leaves out, and the one that the event is at, or -1.
    """

    def __init__(
        self,
        space: ExecutionSpace,
        key: Key,
        events: Events,
        points: np.ndarray,
        quadrature: Quadrature,
        setting: Regularisation,
        *,
        first: AnyArray,
        many: AnyArray,
        body: AnyArray = 0,
        width: AnyArray = 0.0,
        radius: AnyArray = np.inf,
        close: AnyArray = 0.0,
        excluded: AnyArray = -1,
        node: AnyArray = -1,
    ) -> None:
        self._space, self._key, self._setting = space, key, setting
        layer, self.count, xp = LAYERS[key], events.distance.size, space.array_module
        self._parts = PARTS[space.on_device]
        signs = events.signs(layer, setting.side)
        shares = (events.node < 0) & (np.asarray(width) > 0)
        self._regular = bool(np.any(width))
        whole = np.empty((7, self.count), np.int32)
        for row, values in enumerate((body, first, many, excluded, events.thin, node, shares)):
            whole[row] = values
        rows = np.empty((16, self.count))
        rows[:3], rows[3:6], rows[6:9] = points, events.n0, events.directions
        rows[9], rows[10], rows[11] = events.distance, width, signs
        rows[12], rows[13] = SPLIT * events.spacing, np.square(radius)
        rows[14], rows[15] = np.square(close), 0.5 * (1 - signs)
        known = 0.5 * setting.side * layer.jumps(events.n0, events.directions)
        self._known = xp.asarray(known.reshape(layer.rows * layer.columns, self.count), order="C")
        self._arguments = {
            "numbers": xp.asarray(rows),
            "whole_numbers": xp.asarray(whole),
            **quadrature._asdict(),
            "order": setting.order,
            "reach": setting.reach,
            "behind": BEHIND,
            "many": quadrature.areas.size,
            "p": xp.empty((setting.order, self.count)),
        }
        made_of = kernel(space, "make_pairs", key), kernel(space, "share_errors", key)
        prepare([kernel(space, "expand_distance"), *made_of])  # which are compiled at a time
        self._launch("expand_distance")

    def _launch(self, name: str, key: Key | None = None, **more: Any) -> None:
        items = self.count if name == "expand_distance" else self.count * self._parts
        kernel(self._space, name, key)(items, arguments=self._arguments, **more)

    def near(self) -> tuple[np.ndarray, Any]:
        """Return how many nodes are pairs of each event, on the host, and of each work item."""
        found_by = self._space.array_module.empty(self.count * self._parts, np.int32)
        self._launch("count_pairs", found_by=found_by)
        return np.asarray(to_host(found_by)).reshape(-1, self._parts).sum(axis=1), found_by

    def fill(
        self,
        rows: Rows,
        column: int,
        sums: AnyArray,
        *,
        whole: float = 0.0,
        smooth: float = 0.0,
        added: AnyArray = None,
    ) -> None:
        """Write the blocks of pairs, and add them up in ``sums``.

        Parameters
        ----------
        rows : Rows
        column : int
            The first one of this layer.
        sums : array, shape (rows columns + 1, E parts)
            By work items; the last row has what they add up of a smooth delta function.
        whole : float
            How much of the sum's own kernel is in the blocks.
        smooth : float
            How much of the change from that to a smooth kernel.
        added : array, shape (rows, E, columns, n), optional
            What is added to the blocks.
        """
        self._filled = rows.arguments(self._space) | {
            "column": column,
            "bumps": self._space.array_module.zeros(rows.pairs if self._regular else 1),
            "sums": sums,
        }
        self._launch(
            "make_pairs",
            self._key,
            whole=whole,
            smooth=smooth,
            added_pairs=0 if added is None else self.count * added.shape[-1],
            added=rows.values if added is None else added.ravel(),
            **self._filled,
        )

    def share(self) -> None:
        """Add what sums of constants lack to the blocks that were written, and jumps at nodes."""
        exact = LAYERS[self._key].exact
        self._launch(
            "share_errors",
            self._key,
            exact=exact or 0.0,
            mended=int(exact is not None and self._setting.constants),
            known=self._known,
            **self._filled,
        )
