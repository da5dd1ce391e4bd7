"""Keywords of options: earlier ones, guessed ones, and unknown ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import wraps
from typing import Any

from parki.errors import ParkiDeprecationWarning, ParkiTypeError, warn
from parki.ewald.options.expert import USUAL, Expert, check_expert
from parki.ewald.sums import SUMS

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
_ARGUMENTS = ("trg", "src", "dens", "norms", "want", "systems", "boxes", "exclude")
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
            f"parki.Plan, parki.kernel and the calls of sums take {', '.join(parameters)}"
        )
