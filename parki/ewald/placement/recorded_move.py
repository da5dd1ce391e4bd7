"""`RecordedMove`: one graph that places all sums of a placement at other points.

Sums near walls take the points and their images, and several sums may take the same points.
Launched one after the other, the maps of points and the placing of each sum take the host longer
than the device. So a device records all of them, as branches of one graph.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial

from parki.ewald.pipeline.protocol import Place
from parki.ewald.pipeline.replay import Replay
from parki.ewald.placement.places import Places, cloud_of_sum
from parki.ewald.placement.term import PlacedTerm
from parki.ewald.points import Cloud
from parki.typing import AnyArray


def cloud_of_term(term: PlacedTerm, places: Places | None, cloud: Cloud) -> Cloud:
    """Return the points of a term's sum, at its places of other points."""
    return cloud_of_sum(
        term.kernel,
        cloud,
        places,
        term.task.options,
        shared=term.shared,
        group=None,
        before=term.sum,
    )


def places_of(term: PlacedTerm, cloud: Cloud) -> Places | None:
    """Return the places of other points, of which a term takes all; None if nothing maps them."""
    return term.places and term.places.moved(cloud.trg, cloud.src, cloud.norms)


def _recordable(term: PlacedTerm, cloud: Cloud) -> tuple[PlacedTerm, Place] | None:
    """Return a term by another pipeline, and what places it there; None if there is none yet."""
    placed, task = term.sum, term.task
    of_sum = cloud_of_term(term, places_of(term, cloud), cloud)
    if cloud.src.dtype != placed.dtype or not placed.may_follow(placed.pipeline, of_sum):
        return None
    arrays = task.order.all_to_solver(of_sum.distinct)
    found = placed.pipeline.recordable(task, arrays, lambda: placed.points)
    if found is None:
        return None
    by_graph = copy.copy(placed)
    by_graph.pipeline, work = found
    return replace(term, sum=by_graph), work


class RecordedMove:
    """A graph that places terms at as many points as a plan has, in its box.

    Parameters
    ----------
    terms : list of PlacedTerm
        By pipelines that the graph serves.
    works : list of callable
        What places each of them.
    cloud : Cloud
        As those to come.

    Attributes
    ----------
    problem : str
        Why nothing was recorded, if so.
    """

    def __init__(self, terms: list[PlacedTerm], works: list[Place], cloud: Cloud) -> None:
        self._terms, adapter = terms, cloud.space.adapter

        def place(arrays: dict[str, AnyArray]) -> None:
            points = replace(cloud, arrays={"src": arrays["trg"], **arrays})

            def run(first: int = 0) -> None:
                rest = partial(run, first + 1) if first + 1 < len(terms) else None
                with adapter.beside(rest):
                    term = terms[first]
                    of_sum = cloud_of_term(term, places_of(term, points), points).distinct
                    # Each sum replaces values that do not fit in arrays of its own.
                    own = {name: array.copy() for name, array in of_sum.items()}
                    works[first](term.task.order.all_to_solver(own))

            run()

        self._graph = Replay(cloud.space, place, cloud.distinct)
        self.problem = self._graph.problem

    @classmethod
    def of(cls, terms: tuple[PlacedTerm, ...], cloud: Cloud) -> RecordedMove | None:
        """Return the graph that takes the place of terms, for points as a cloud has.

        None if it depends on values of points what is done, or until as many have come again.
        """
        parts = list[tuple[PlacedTerm, Place]]()
        if None in cloud.options.edges:  # which the points set
            return None
        for term in terms:
            if (part := _recordable(term, cloud)) is None:
                return None
            parts.append(part)
        return cls([term for term, _ in parts], [work for _, work in parts], cloud)

    def takes(self, terms: tuple[PlacedTerm, ...], cloud: Cloud) -> bool:
        """Return whether it places these terms, and points as a cloud has."""
        alike = cloud.trg.dtype == self._graph.arrays["trg"].dtype
        return alike and self._graph.takes(cloud.distinct) and self.serves(terms)

    def serves(self, terms: tuple[PlacedTerm, ...]) -> bool:
        """Return whether it has placed these terms."""
        pairs = zip(terms, self._terms, strict=False)
        same = all(one.sum.pipeline is own.sum.pipeline for one, own in pairs)
        return same and len(terms) == len(self._terms)

    def moved(self, cloud: Cloud) -> list[PlacedTerm]:
        """Return its terms at points that no sum has looked at; wait for nothing."""
        cloud = cloud.owned()
        self._graph(cloud.distinct, {})
        terms = list[PlacedTerm]()
        for term in self._terms:
            term.sum.pipeline.launched(term.sum.lattice)
            places, placed = places_of(term, cloud), copy.copy(term.sum)
            placed.pending = partial(cloud_of_term, term, places, cloud)
            terms.append(replace(term, sum=placed, places=places))
        return terms
