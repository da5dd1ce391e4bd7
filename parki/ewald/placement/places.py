"""`Places`: the points of a term, where maps or boxes take them, and the points of its sum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

from parki.ewald.geometry.boxes import Group
from parki.ewald.geometry.columns import WHOLE, Columns
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.options import EwaldOptions
from parki.ewald.options.mirrored import Mirrored
from parki.ewald.pipeline.ewald_sum import EwaldSum
from parki.ewald.points import Cloud, take_cloud
from parki.ewald.sums import SUMS
from parki.ewald.sums.composite import SharedAddend
from parki.ewald.sums.maps import Arrays
from parki.typing import AnyArray


class Places(NamedTuple):
    """The points of a term, in its columns, where maps or boxes take them.

    Attributes
    ----------
    columns : Columns
    of_sources : dict
        "points" and "norms" of the sources, or None, which maps take; "point_radii", if they have
        any; and the "order" of the sum's sources.
    of_targets : dict
        What maps of results take: "points" of the targets, and their "point_radii".
    """

    columns: Columns
    of_sources: Arrays
    of_targets: Arrays

    @classmethod
    def of(cls, cloud: Cloud, shared: SharedAddend | None, group: Group | None) -> Places | None:
        """Return where a term's points are; None if they are the plan's."""
        if shared is None and group is None:
            return None
        columns = WHOLE
        if group is not None:
            if shared is not None:  # whose maps take points where they are
                group = group._replace(centred=False)
            systems = cast(Systems, cloud.systems)
            columns = group.columns(systems, cloud.xp, lambda: cloud.system_extents)
        order: dict[str, Any] = {}
        if shared is not None:
            order = shared.arranged(_marks(cloud, columns, group)[0], None)[2]
        trg, src, norms = columns.points(cloud.trg, cloud.src, cloud.norms)
        return cls(columns, order, {}).moved(trg, src, norms)

    def moved(self, trg: AnyArray, src: AnyArray, norms: Any) -> Places:
        """Return the same places at other points with their normals or radii, in its columns."""
        of_sources = {**self.of_sources, "points": src, "norms": norms}
        of_targets = {**self.of_targets, "points": trg}
        if isinstance(norms, tuple):
            of_targets["point_radii"], of_sources["point_radii"] = norms
        return Places(self.columns, of_sources, of_targets)


def _marks(
    cloud: Cloud, columns: Columns, group: Group | None
) -> tuple[Systems | None, Labels | None]:
    """Return the systems and the labels of a term's columns."""
    if group is None:
        return cloud.systems, cloud.labels
    return group.marked(columns, cast(Systems, cloud.systems), cloud.labels)


def cloud_of_sum(
    kernel: str,
    cloud: Cloud,
    places: Places | None,
    options: EwaldOptions,
    *,
    shared: SharedAddend | None,
    group: Group | None,
    before: EwaldSum | None = None,
) -> Cloud:
    """Return the points of a term's sum, whose options these are.

    It has the systems and labels of the sum ``before``, if it is given.
    """
    if places is None:
        return cloud if options is cloud.options else replace(cloud, options=options)
    src, norms = places.of_sources["points"], places.of_sources["norms"]
    if shared is not None:
        src, norms = shared.points(places.of_sources, SUMS[kernel])
    if before is not None:
        systems, labels = before.systems, before.labels
    else:
        systems, labels = _marks(cloud, places.columns, group)
        if shared is not None:
            systems, labels, _ = shared.arranged(systems, labels)
    return take_cloud(
        kernel,
        places.of_targets["points"],
        src,
        norms,
        options,
        systems=systems,
        exclude=labels,
        space=cloud.space,
        borrowed=False,
        images=cloud.same and isinstance(options, Mirrored),
    )
