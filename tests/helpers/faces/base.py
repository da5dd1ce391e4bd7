"""`Face`: how a law makes, applies, moves and checks one of the ways in which users sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from contract import SCATTER, rms, rounding

import parki
from examples import EXAMPLES, Example, example
from parki.interchange import to_host

Array = np.ndarray[Any, np.dtype[Any]]
BOX = np.array([1.2, 1.0, 0.9])
TILTS = (0.2, -0.1, 0.3)
TOLERANCE = 1e-6
# By number of periodic axes: kernels fade along free ones, over grids that shorter ones make large.
CUTOFFS = (0.8, 0.55, 0.45, 0.4)
# A sum with parameters, which the long run meets. Gaussian blobs have ends, whose errors scatter
# over as few targets as laws have: tests/test_regularised.py.
BLOBS = ("stokes_comb(epsilon=0.1, blob='prolate')",)


class Given(NamedTuple):
    """The arguments of a sum; ``more`` has those that one face takes."""

    kernel: str
    trg: Array
    src: Array
    dens: Array
    norms: Array | None
    options: parki.EwaldOptions
    unit: float = 1.0
    more: Mapping[str, Any] = {}

    @property
    def example(self) -> Example:
        """What is known of the sum."""
        return example(self.kernel)

    @property
    def points(self) -> tuple[Any, ...]:
        """Targets, sources and normals."""
        return self.trg, self.src, self.norms

    def on(self, send: Callable[[Array], Any], **options: Any) -> Given:
        """Return them as other arrays; targets that are sources stay one array."""
        trg, norms = send(self.trg), None if self.norms is None else send(self.norms)
        src = trg if self.src is self.trg else send(self.src)
        found = self._replace(trg=trg, src=src, dens=send(self.dens), norms=norms)
        return found.by(**options) if options else found

    def by(self, **options: Any) -> Given:
        """Return them with other options."""
        fields = {name: getattr(self.options, name) for name in self.options.__dataclass_fields__}
        return self._replace(options=parki.EwaldOptions(**(fields | options)))


class Face:
    """`parki.Plan`; the other faces say what is different.

    Attributes
    ----------
    name, words : str
        Its name in tests, and in the manual.
    sums : tuple of str
        The sums that it has.
    periodicities : tuple of int
    usual : tuple of str and int
        The sum, and the number of periodic axes, of the default run: few, so that laws share
        kernels.
    counts : tuple of pair of int
        Numbers of targets and sources, of the first points and of others.
    tilted : bool
        Whether boxes are tilted.
    takes : tuple of str
        Densities that others refuse, by the names of `tests/laws/test_refusals.py`.
    tier : str
        What it promises: a tier of `matrix.TIERS`.
    lacks : mapping of str to str
        Why a law does not hold, as it is meant; also of one sum, by both names: "late stokes_dl".
    """

    name, words = "plan", "`parki.Plan`"
    sums: tuple[str, ...] = (*EXAMPLES, *BLOBS)
    periodicities: tuple[int, ...] = (0, 1, 2, 3)
    usual: tuple[str, int] = ("laplace", 0)
    counts: tuple[tuple[int, int], ...] = ((50, 60), (45, 70))
    tilted = False
    tier = "1"
    lacks: Mapping[str, str] = {}
    takes: tuple[str, ...] = ()
    differences = 1e-6  # how far derivatives are from differences of exact results, relatively
    permuting = 1e-10  # how much results change with the order of points, relatively
    transposed = 1e-12  # the error of the transpose, over the sizes of both sides

    def __repr__(self) -> str:
        return self.name

    def without(self, law: str, kernel: str) -> str | None:
        """Return why a law does not hold for a sum as it is meant; None if it does."""
        return self.lacks.get(law) or self.lacks.get(f"{law} {kernel}")

    # ------------------------------------------------------------------ what is given
    def given(
        self,
        kernel: str,
        periodicity: int,
        seed: int = 0,
        *,
        unit: float = 1.0,
        counts: int = 0,
        tilt: float = 0.0,
        same: bool = False,
        **options: Any,
    ) -> Given:
        """Return random arguments; ``tilt`` is another box, and the others are options.

        Some targets are at the places of sources; all are the same array if ``same``.
        """
        rng, kind = np.random.default_rng([seed, periodicity]), example(kernel)
        box = self.box(periodicity, tilt)
        targets, sources = self.counts[counts]
        targets = sources if same else targets
        trg, src = self.place(rng, box, targets), self.place(rng, box, sources)
        trg[:, :4] = src[:, :4]
        dens, norms = kind.density(rng, sources), kind.normals(rng, sources)
        src, dens, *others = (a.astype("f4").astype("f8") for a in (src, dens, trg))
        norms = None if norms is None else norms.astype("f4").astype("f8")
        name, dens = kind.in_unit(unit, dens)
        own = {"tolerance": TOLERANCE, "cutoff": CUTOFFS[periodicity] * unit}
        settings = own | self.settings() | options
        own = parki.EwaldOptions(self.axes(kernel, periodicity), (unit * box).tolist(), **settings)
        src = unit * src
        trg = src if same else unit * others[0]
        found = Given(name, trg, src, dens, norms, own, unit)
        return found._replace(more=self.more(found, rng))

    def settings(self) -> dict[str, Any]:
        """Return options of this face."""
        return {}

    def more(self, given: Given, rng: np.random.Generator) -> dict[str, Any]:
        """Return other arguments than those of all."""
        return {}

    def axes(self, kernel: str, periodicity: int) -> Any:
        """Return which axes are periodic."""
        return periodicity

    def box(self, periodicity: int, tilt: float) -> Array:
        """Return the edges of a box, or its lattice vectors in rows."""
        if self.tilted:
            tilts = np.array(TILTS) + tilt
            return parki.lattice(*BOX, *tilts[: 1 if periodicity == 2 else 3])
        return BOX * (1 + 0.3 * tilt * np.array([0, 1, -1]))

    def place(self, rng: np.random.Generator, box: Array, count: int) -> Array:
        """Return points in a box."""
        return (rng.random((count, 3)) @ (np.diag(box) if box.ndim == 1 else box)).T.copy()

    # ------------------------------------------------------------------ what is done
    def make(self, given: Given) -> Any:
        """Return what sums."""
        return self.plan(given, **given.more)

    def laid(self, given: Given, lay: Callable[[Array], Any]) -> Given:
        """Return what is given as arrays that lie otherwise in memory, or of another library."""
        return given.on(lay)

    def plan(self, given: Given, **more: Any) -> Any:
        """Return a plan of the sum, and of the results, of this face."""
        how = {"want": self.want(given), **more}
        return parki.Plan(self.kernel(given), *given.points, given.options, **how)

    def kernel(self, given: Given) -> Any:
        """Return what is summed."""
        return given.kernel

    def want(self, given: Given) -> Any:
        """Return which results are wanted."""
        return "u"

    def apply(self, made: Any, dens: Any, **how: Any) -> Any:
        """Return the sum of a density."""
        return made(dens, **how)

    def adjoint(self, made: Any, values: Any) -> Any:
        """Return the transposed sum."""
        return made.adjoint(values)

    def inputs(self, given: Given) -> dict[str, Array]:
        """Return the arrays by which there are derivatives."""
        norms = {} if given.norms is None else {"norms": given.norms}
        return {"trg": given.trg, "src": given.src, "dens": given.dens, **norms}

    def changed(self, given: Given, moves: Mapping[str, Array]) -> Given:
        """Return inputs that have moved."""
        return given._replace(**{name: a + moves[name] for name, a in self.inputs(given).items()})

    def pull(self, made: Any, given: Given, values: Array) -> dict[str, Array]:
        """Return the derivatives of ``(values * results).sum()`` by the inputs."""
        return dict(made.vjp(given.dens, values, tuple(self.inputs(given))))

    def push(self, made: Any, given: Given, moves: Mapping[str, Array]) -> Any:
        """Return the change of the results as inputs move."""
        return made.jvp(given.dens, dict(moves))

    def checks(self, made: Any, given: Given) -> Any:
        """Return the measured errors, of each result if there are several."""
        found = made.check(given.dens, 10**6)
        return found if isinstance(found, tuple) else (found,)

    def operator(self, made: Any) -> Any:
        """Return the sum as a linear operator of SciPy."""
        return made.as_linear_operator()

    def move(self, made: Any, given: Given, box: bool = False) -> Any:
        """Give other points to what was made, perhaps in their box, and return it."""
        made.update_points(*given.points, **given.more, **self.boxed(given, box))
        return made

    def boxed(self, given: Given, box: bool) -> dict[str, Any]:
        """Return the argument of another box."""
        return {"box": given.options.box} if box else {}

    def promise(self, made: Any, dens: Any) -> Any:
        """Return the bound of the error that it tells; 0 if it tells none."""
        return made.promise(dens)

    def permuted(self, given: Given, to: Array, of: Array) -> Given:
        """Return the same points in other orders."""
        norms = None if given.norms is None else given.norms[:, of]
        arrays = {"trg": given.trg[:, to], "src": given.src[:, of], "dens": given.dens[..., of]}
        more = {name: self.reordered(each, to, of) for name, each in given.more.items()}
        return given._replace(**arrays, norms=norms, more=more)

    def reordered(self, value: Any, to: Array, of: Array) -> Any:
        """Return another argument for points in other orders."""
        return value

    def results(self, found: Array, to: Array) -> Array:
        """Return the results for targets in another order."""
        return found[..., to]

    # ------------------------------------------------------------------ what is right
    def parts(self, given: Given) -> list[tuple[Any, Any, Array]]:
        """Return what is summed apart: columns of targets and sources, and a box."""
        return [(slice(None), slice(None), np.array(given.options.box, dtype=float))]

    def each(self, given: Given) -> Iterable[tuple[Any, Given]]:
        """Yield the columns of the targets of each part, and what is given for it."""
        for to, of, box in self.parts(given):
            if not given.trg[:, to].shape[1]:
                continue
            norms = None if given.norms is None else given.norms[:, of]
            own = given._replace(
                trg=given.trg[:, to], src=given.src[:, of], dens=given.dens[..., of], norms=norms
            )
            yield to, own.by(box=box.tolist())

    def reference(self, given: Given) -> Array:
        """Return the exact result of one part."""
        how = {"box": given.options.box, "periodicity": given.options.periodicity}
        return given.example.exact(given.trg, given.src, given.dens, given.norms, **how)

    def bound(self, given: Given) -> float:
        """Return the promise of one part."""
        box = np.array(given.options.box, dtype=float)
        sides = box if box.ndim == 1 else np.diag(box)
        of = given.dens, given.norms, sides, given.options.tolerance
        return given.example.promise(*of)

    def exact(self, given: Given) -> Array:
        """Return the exact result."""
        results = [(to, self.reference(own)) for to, own in self.each(given)]
        found = np.zeros((*results[0][1].shape[:-1], given.trg.shape[1]))
        for to, values in results:
            found[..., to] = values
        return found

    def off(self, given: Given, found: Any, exact: Any) -> float:
        """Return an error over what tolerance and rounding allow; at most 1 is promised."""
        found = np.asarray(to_host(found))
        assert found.shape == exact.shape
        ratios = [0.0]
        for to, own in self.each(given):
            one, other = found[..., to], exact[..., to]
            single = one if own.options.precision == "full" else one.astype("f4")
            # The promise is a mean square, about which the errors at few targets scatter.
            bound = self.bound(own) * (SCATTER if one.shape[-1] < 20 else 1)
            # What is rounded of mixed and single precision is the density, too.
            ratios.append(rms(one - other) / (bound + rounding(single, other) + 1e-300))
        return max(ratios)
