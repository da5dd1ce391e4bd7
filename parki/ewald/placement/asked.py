"""`Asked`: what a plan sums, one sum or a composite, and the shapes of densities and results."""

from __future__ import annotations

from typing import Any, NamedTuple

from parki.ewald.options import EwaldOptions
from parki.ewald.points import Arguments, check_density, check_want, like_points, result_shape
from parki.ewald.points import take_arguments as take
from parki.ewald.sums import SUMS, sum_of
from parki.ewald.sums.composite import Composite
from parki.ewald.sums.maps import Map
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
        None if it is the one sum of this name.
    """

    kernel: Any
    want: Any
    density: tuple[int, ...]
    results: dict[str, tuple[int, ...]]
    composite: Composite | None = None

    @classmethod
    def of(cls, kernel: Any, want: Any, options: EwaldOptions) -> Asked:
        """Return the sum that is asked for; refuse sums and results that parki does not have.

        Raises
        ------
        ParkiValueError, ParkiTypeError
        """
        if options.walled or isinstance(kernel, Composite):
            composite: Composite = kernel
            if options.walled:
                composite = near_wall(kernel, options.wall, want, up=options.axes.index(2))
            return cls(kernel, want, composite.density, {want: composite.result}, composite)
        kind = sum_of(kernel)
        names = check_want(kind.name, want)
        shapes = {name: result_shape(kind.name, name, 1)[:-1] for name in names}
        want = want if isinstance(want, str) else names
        return cls(kind.name, want, kind.density_shape(1)[:-1], shapes)

    @property
    def name(self) -> str:
        """The name of the sum."""
        return self.composite.name if self.composite else str(self.kernel)

    @property
    def transposed(self) -> tuple[str, str, Map] | None:
        """The sum that is the transpose of a composite, its result and a map; or None."""
        return self.composite.transposed if self.composite else None

    def taken(self, trg: Any, src: Any, norms: Any, options: EwaldOptions) -> Arguments:
        """Return the arguments of all sums, of which no values were looked at.

        Raises
        ------
        ParkiValueError, ParkiTypeError
        """
        if self.composite is None:
            return take(self.kernel, trg, src, norms, options)
        kernels = [each.kernel for each in self.composite.addends]
        first = next((name for name in kernels if SUMS[name].normals), kernels[0])
        own = SUMS[first].normals or self.composite is not self.kernel
        given = take(first, trg, src, norms if own else None, options)
        if norms is not None and not own:  # that maps alone take
            like = like_points("norms", norms, given.space, given.arrays["src"].dtype)
            shape = given.arrays["src"].shape
            given.arrays["norms"] = check_density("norms", like, shape)
        return given
