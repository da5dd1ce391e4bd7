"""`Expert`: what only students of the method choose; and keywords, earlier and unknown ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from difflib import get_close_matches
from functools import wraps
from typing import Any

import numpy as np

from parki.errors import ParkiDeprecationWarning, ParkiTypeError, ParkiValueError, warn
from parki.ewald.options.variants import (
    CELL_METHODS,
    EVALUATORS,
    G2P_METHODS,
    P2G_METHODS,
    P2P_METHODS,
    UNORDERED,
)
from parki.ewald.split.prolate import SPLITS
from parki.ewald.sums import SUMS
from parki.interchange import number
from parki.meaning import refuse_variable
from parki.settings import EXECUTORS
from parki.typing import Executor, G2PMethod, P2GMethod, P2PMethod, Radial, Split

CHOICES = {
    "split": ("auto", *SPLITS),
    "radial": EVALUATORS,
    "p2p_method": P2P_METHODS,
    "p2g_method": P2G_METHODS,
    "g2p_method": G2P_METHODS,
}


@dataclass(frozen=True)
class Expert:
    """How the method works inside: to study it, and to compare with the literature.

    Nothing of this changes what a sum promises. `EwaldOptions` takes it as ``expert``.

    Parameters
    ----------
    sources_per_cell : float, optional
        Mean number of sources in a cube of edge r_c: sets the cut-off r_c of the near field, as
        `EwaldOptions.cutoff` does. Default: the predicted optimum.
    window_points : int, optional
        Grid points P under the window along each axis, 2 to 18. Default: chosen.
    split : {"auto", "prolate", "hasimoto"}
        How near and far field are divided. The prolate split needs 2 to 4 times fewer grid points;
        Hasimoto's is the literature's. Default: prolate.
    radial : {"polynomial", "erfc", "rational"}
        How the near field's radial functions are evaluated: by polynomials, by the library's erf
        and exp, or by a rational function and exp. The latter two are the literature's, to compare
        with: for Hasimoto's split, and the velocity or potential alone.
    p2p_method : {"auto", "tile", "staged", "gm1d", "gm2d", "sm1d", "sm2d"}
        Variant of the near field: parki's for GPUs (tile) and for CPUs (staged), or one of the
        literature's four, to compare with, which compute the velocity or potential alone. Default:
        by the execution space. The literature's spellings are taken, too: "GM-1D", "HYBRID".
    p2g_method : {"auto", "owner", "tile", "base", "source", "grid", "hybrid"}
        Variant of the spreading: each thread owns tiles of the grid (CPUs), or a column of it,
        whose values are in registers (GPUs); or one of the literature's four, to compare with.
        Default: by the execution space.
    g2p_method : {"auto", "target", "base", "tile"}
        Variant of the gathering: targets sorted by grid tiles, in the order given, or sorted and
        with the grid's values around each tile in scratch memory. Default: tile on devices.
    executor : {"embedded", "pykokkos"}, optional
        Who runs the kernels: parki's own compiler, or upstream PyKokkos where it is installed.
        Default: the environment variable PARKI_EXECUTOR, else embedded.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If a value is impossible; the message names it and what was expected.
    """

    __: KW_ONLY
    sources_per_cell: float | None = None
    window_points: int | None = None
    split: Split = "auto"
    radial: Radial = "polynomial"
    p2p_method: P2PMethod = "auto"
    p2g_method: P2GMethod = "auto"
    g2p_method: G2PMethod = "auto"
    executor: Executor | None = None

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        if self.sources_per_cell is not None:
            meaning = "the mean number of sources in a cube of edge r_c"
            set_positive(self, "sources_per_cell", meaning)
        points = self.window_points
        if points is not None:
            whole = isinstance(points, (int, np.integer))
            if not whole or points not in range(2, 19):
                raise ParkiValueError(
                    f"window_points is {points!r}; expected a whole number from 2 to 18"
                )
            object.__setattr__(self, "window_points", int(points))
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if name.endswith("_method") and isinstance(value, str):
                object.__setattr__(self, name, value.lower().replace("-", ""))  # "GM-1D"
            require_one_of(self, name, choices)
        if self.executor is not None:
            require_one_of(self, "executor", EXECUTORS)
        if self.radial != "polynomial" and self.split != "hasimoto":
            raise ParkiValueError(
                f"radial is {self.radial!r}, which evaluates Hasimoto's split, but split is "
                f"{self.split!r}; pass split='hasimoto', or leave radial to 'polynomial'"
            )

    def check(self, cutoff: float | None, mixed: bool, deterministic: bool) -> None:
        """Refuse what does not go together with other options."""
        if self.sources_per_cell is not None and cutoff is not None:
            raise ParkiValueError(
                "sources_per_cell and cutoff both set the cut-off; give one of them"
            )
        if mixed and self.p2p_method in CELL_METHODS:
            raise ParkiValueError(
                f"precision is 'mixed', but p2p_method is {self.p2p_method!r}, which takes "
                "positions as they are; leave p2p_method to 'auto', or precision to 'full'"
            )
        if deterministic and self.p2g_method in UNORDERED:
            raise ParkiValueError(
                f"deterministic is True, but p2g_method is {self.p2g_method!r}, which adds to the "
                "grid by atomics, in any order; choose 'owner', 'tile' or 'grid', or leave it to "
                "'auto'"
            )

    def check_tilted(self) -> None:
        """Refuse variants for boxes along the axes."""
        if self.p2p_method in CELL_METHODS:
            raise ParkiValueError(
                f"p2p_method is {self.p2p_method!r}, which takes boxes along the axes; leave "
                "p2p_method to 'auto', or give lengths in box"
            )

    def of_derivatives(self) -> Expert:
        """Return options without variants of the literature, which have no derivatives."""
        return replace(self, radial="polynomial", p2p_method="auto", p2g_method="auto")


def require_one_of(options: Any, name: str, choices: tuple[str, ...]) -> None:
    """Refuse a field of options that is not one of the words it can be."""
    value = getattr(options, name)
    # With an array, `in` would compare each value.
    if not isinstance(value, str) or value not in choices:
        raise ParkiValueError(f"{name} is {value!r}; expected one of {', '.join(choices)}")


def set_positive(options: Any, name: str, meaning: str) -> None:
    """Make a field of options a float; refuse what is not positive and finite."""
    value = getattr(options, name)
    refuse_variable(name, value)
    size = number(name, value, meaning)
    if not (math.isfinite(size) and size > 0):
        raise ParkiValueError(f"{name} is {value!r}; expected a positive number: {meaning}")
    object.__setattr__(options, name, size)


def check_expert(value: Any) -> None:
    """Refuse what is no `Expert`."""
    if not isinstance(value, Expert):
        raise ParkiTypeError(
            f"expert is a {type(value).__name__}; expected parki.Expert, such as "
            "parki.Expert(split='hasimoto')"
        )


USUAL = Expert()


# Fields of `Expert` by their names as fields of `EwaldOptions`, before version 0.3.
OLD = {"cell_size": "sources_per_cell"} | {field.name: field.name for field in fields(Expert)}
# What other libraries, and papers, call what parki has.
MEANT = {
    "tolerance": "tol eps rtol atol accuracy error digits",
    "periodicity": "periodic periods pbc boundary bc",
    "box": "cell boxsize box_size lattice vectors length lengths l",
    "cutoff": "rc r_c rcut r_cut cut_off xi alpha beta",
    "execution_space": "space device backend platform gpu cpu",
    "deterministic": "reproducible",
    "exclude": "exclusions excluded mask bonded",
    "norms": "normals normal",
    "trg": "targets target",
    "src": "sources source",
    "dens": "density charges charge forces force strengths strength q",
    "want": "output outputs compute derivatives results",
    "systems": "batch batch_idx batch_index",
    "radii": "radius a",
    "viscosity": "mu eta",
    "kappa": "screening",
    "epsilon": "regularisation regularization delta",
    "rng": "seed random_state generator",
}
_GUESSED = {guess: name for name, guesses in MEANT.items() for guess in guesses.split()}
_ARGUMENTS = ("trg", "src", "dens", "norms", "want", "systems", "boxes", "periodicities", "exclude")
_WITHOUT = {
    "viscosity": "sums leave it out: divide velocities by 8 pi times the viscosity",
    "rng": "sums draw no random numbers: displacements and noise of parki.Spheres take an rng",
    "dtype": "sums take the dtype of the arrays",
    "threads": "PARKI_NUM_THREADS, of the environment, is the number of threads",
}


def present(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords of `EwaldOptions` by their present names, with a warning for earlier ones."""
    keywords = dict(keywords)
    old = {name: keywords.pop(name) for name in OLD if name in keywords}
    if isinstance(precision := keywords.get("precision"), str) and precision == "double":
        _deprecated('precision="double"', 'precision="full"')
        keywords["precision"] = "full"
    if old:
        new = {OLD[name]: value for name, value in old.items()}
        written = ", ".join(f"{name}={value!r}" for name, value in new.items())
        _deprecated(", ".join(old), f"expert=parki.Expert({written})")
        expert = keywords.get("expert", USUAL)
        check_expert(expert)
        keywords["expert"] = replace(expert, **new)
    return keywords


def _deprecated(old: str, new: str) -> None:
    message = f"{old} of EwaldOptions is deprecated; write {new}"
    warn(message, ParkiDeprecationWarning)


def of_expert(options: Any, name: str) -> Any:
    """Return a field of `expert` by its earlier name, with a warning."""
    if name not in OLD:
        raise AttributeError(f"{type(options).__name__!r} object has no attribute {name!r}")
    _deprecated(name, f"options.expert.{OLD[name]}")
    return getattr(options.expert, OLD[name])


def understanding(make: Callable[..., None]) -> Callable[..., None]:
    """Return an ``__init__`` of options that takes earlier names, too, and refuses unknown ones."""

    @wraps(make)
    def understood(self: Any, *values: Any, **keywords: Any) -> None:
        refuse_unknown(keywords, [field.name for field in fields(self)])
        make(self, *values, **present(keywords))

    return understood


def refuse_unknown(
    keywords: Iterable[str], options: Sequence[str], also: Sequence[str] = ()
) -> None:
    """Refuse keywords that are no options, with the word that was meant.

    Parameters
    ----------
    keywords : iterable of str
    options : sequence of str
        The fields of `EwaldOptions`.
    also : sequence of str
        What else the caller takes.

    Raises
    ------
    ParkiTypeError
    """
    for name in keywords:
        if name in options or name in OLD:
            continue
        parameters = SUMS.parameters
        known, word = [*options, *also, *parameters, *_ARGUMENTS], name.lower()
        meant = _GUESSED.get(word, word)
        near = [meant] if meant in known else get_close_matches(word, known, 1)
        hint = f" did you mean {near[0]}?" if near and near[0] != name else ""
        if meant in _WITHOUT and meant not in known:
            hint = f" {_WITHOUT[meant]};"
        raise ParkiTypeError(
            f"unknown option {name!r};{hint} EwaldOptions takes {', '.join(options)}; "
            f"parki.Plan, parki.vjp, parki.kernel and calls of sums take {', '.join(parameters)}"
        )
