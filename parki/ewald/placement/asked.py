"""`Asked`: what a plan sums, one sum or a composite, and the shapes of densities and results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from parki.ewald.derivatives.mapped_sum import arguments_of, check_maps
from parki.ewald.options import EwaldOptions
from parki.ewald.points import Arguments, check_names, check_want, result_shape, take_arguments
from parki.ewald.sums import sum_of
from parki.ewald.sums.composite import Composite
from parki.ewald.sums.maps import Arrays
from parki.ewald.sums.results import of_result
from parki.ewald.sums.walls import near_wall


class Asked(NamedTuple):
    """What a plan sums.

    Attributes
    ----------
    kernel : str or Composite
        As it was given, a name as all its names are written.
    want : str or tuple of str
    density : tuple of int
        Shape of a density for one source.
    results : dict
        Shape of each result for one target.
    composite : Composite or None
        The composite that has all results; None if it is the one sum of this name.
    parts : tuple of Composite
        For each result.
    """

    kernel: str | Composite
    want: str | tuple[str, ...]
    density: tuple[int, ...]
    results: dict[str, tuple[int, ...]]
    composite: Composite | None = None
    parts: tuple[Composite, ...] = ()

    @classmethod
    def of(cls, kernel: Any, want: Any, options: EwaldOptions) -> Asked:
        """Return the sum that is asked for; refuse sums and results that parki does not have.

        Raises
        ------
        ParkiValueError, ParkiTypeError
        """
        if options.walled or isinstance(kernel, Composite):
            names, up = check_names(want), options.axes.index(2)
            own = partial(near_wall, kernel, options.wall, up=up) if options.walled else None
            parts = tuple(own(n) if own else of_result(kernel, n) for n in names)
            shapes = {name: each.result for name, each in zip(names, parts, strict=True)}
            want = want if isinstance(want, str) else names
            return cls(kernel, want, parts[0].density, shapes, _of_all(names, parts), parts)
        kind = sum_of(kernel)
        names = check_want(kind.name, want)
        shapes = {name: result_shape(kind.name, name, 1)[:-1] for name in names}
        want = want if isinstance(want, str) else names
        return cls(kind.name, want, kind.density_shape(1)[:-1], shapes)

    @property
    def name(self) -> str:
        """The name of the sum."""
        return self.composite.name if self.composite else str(self.kernel)

    def taken(self, trg: Any, src: Any, norms: Any, options: EwaldOptions) -> Arguments:
        """Return the arguments of all sums, of which no values were looked at.

        Raises
        ------
        ParkiValueError, ParkiTypeError
        """
        if self.composite is None:
            return take_arguments(self.kernel, trg, src, norms, options)
        own = isinstance(self.kernel, Composite)
        return arguments_of(self.composite, own, trg, src, norms, options)

    def check_maps(self, trg: Any, cloud: Arrays) -> None:
        """Refuse maps of a user's composite that make impossible values: see `check_maps`."""
        own = isinstance(self.kernel, Composite) and not self.kernel.walled
        for part in self.parts if own else ():
            check_maps(part, trg, cloud)


def _of_all(names: tuple[str, ...], parts: tuple[Composite, ...]) -> Composite:
    """Return the composite of several results, whose addends say which one they are of."""
    first = parts[0]
    if names == ("u",):
        return first
    each = zip(names, parts, strict=True)
    addends = tuple(replace(one, of=name) for name, part in each for one in part.addends)
    scales = tuple(dict.fromkeys(scale for part in parts for scale in part.scales))
    name = ", ".join(part.name for part in parts)
    return replace(first, name=name, addends=addends, scales=scales, transposed=None)
