"""Options as keywords: one rule for all calls, which is that of `take_options`."""

from __future__ import annotations

import importlib
import inspect
import typing
from dataclasses import fields, replace

import numpy as np
import pytest
from started import MISSING

import parki
from parki.ewald.options import CHOICES
from parki.ewald.sums import SUMS
from parki.typing import KernelName, OptionKeywords, ResultName, SpaceName

KEYWORDS = {"periodicity": 2, "box": [1, 1, 1], "tolerance": 1e-2, "densities": "any"}
OPTIONS = parki.EwaldOptions(**KEYWORDS)
COUNT = 20
POINTS, VALUES = np.random.default_rng(0).random((2, 3, COUNT))
NORMS = VALUES[::-1].copy()
LIBRARIES = ["parki", "parki.ewald", "parki.distributed.ewald", "parki.torch", "parki.jax"]


def given(name, library="parki"):
    """Return targets, sources, density and normals of a call, for a library."""
    family = SUMS.families[name]
    record = family.make(**family.example)
    dens = np.random.default_rng(1).random(record.density_shape(COUNT))
    arrays = POINTS, POINTS, dens, NORMS if record.normals else None
    if library != "parki.torch":
        return arrays
    torch = pytest.importorskip("torch")
    return [None if a is None else torch.as_tensor(a) for a in arrays]


def calls(library):
    """Return a library's sums by name; skip where the library is not installed."""
    if library == "parki.distributed.ewald" and MISSING:
        pytest.skip(MISSING)
    for name in ("torch", "jax"):
        if library == f"parki.{name}":
            pytest.importorskip(name)
    module = importlib.import_module(library)
    return {name: getattr(module, name) for name in SUMS.listed}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", SUMS.listed)
def test_keywords_are_options(name, library):
    """For all sums: the options that arrive are those of the same fields."""
    call, seen, parameters = calls(library)[name], [], SUMS.families[name].example
    trg, src, dens, norms = given(name, library)
    with pytest.MonkeyPatch.context() as patch:
        original = parki.ewald.pipeline.placed_sum.check_arguments
        spy = lambda *args: seen.append(args[4]) or original(*args)  # noqa: E731
        patch.setattr("parki.ewald.pipeline.placed_sum.check_arguments", spy)
        by_object = call(trg, src, dens, norms, OPTIONS, **parameters)
        by_keywords = call(trg, src, dens, norms, **KEYWORDS, **parameters)
    assert seen == [OPTIONS, OPTIONS]
    np.testing.assert_array_equal(by_keywords, by_object)


@pytest.mark.parametrize("library", LIBRARIES)
def test_refusals(library):
    call = calls(library)["laplace"]
    trg, src, dens, _ = given("laplace", library)
    both = r"^options was given, and box, tolerance as well; give all options as keywords"
    for place in ({"options": OPTIONS}, {"norms": OPTIONS}):
        with pytest.raises(parki.ParkiTypeError, match=both):
            call(trg, src, dens, **place, box=[1, 1, 1], tolerance=1e-2)
    with pytest.raises(parki.ParkiTypeError, match=r"^unknown option 'tol'; EwaldOptions takes pe"):
        call(trg, src, dens, options=OPTIONS, tol=1e-2)
    with pytest.raises(parki.ParkiTypeError, match=r"or its fields as keywords of the call$"):
        call(trg, src, dens)
    with pytest.raises(parki.ParkiValueError, match=r"^box is missing, but periodicity is 3"):
        call(trg, src, dens, tolerance=1e-2)
    with pytest.raises(TypeError, match=r"laplace\(\) missing 2 required positional arguments"):
        call(trg)


def test_plans_and_derivatives():
    trg, src, dens, _ = given("laplace")
    plan = parki.Plan("laplace", trg, src, want="grad_u", **KEYWORDS)
    assert plan.options == OPTIONS
    how = {"values": dens, "wrt": ("src",)}
    found = parki.vjp("laplace", trg, src, dens, **how, **KEYWORDS)
    expected = parki.vjp("laplace", trg, src, dens, OPTIONS, **how)
    np.testing.assert_array_equal(found["src"], expected["src"])
    tangents = {"src": POINTS}
    change = parki.jvp("laplace", trg, src, dens, tangents=tangents, **KEYWORDS)
    expected = parki.jvp("laplace", trg, src, dens, OPTIONS, tangents=tangents)
    np.testing.assert_array_equal(change, expected)
    for call in (
        lambda: parki.Plan("laplace", trg, src, OPTIONS, tolerance=1e-2),
        lambda: parki.vjp("laplace", trg, src, dens, OPTIONS, **how, tolerance=1e-2),
        lambda: parki.jvp("laplace", trg, src, dens, OPTIONS, tangents=tangents, tolerance=1e-2),
    ):
        with pytest.raises(parki.ParkiTypeError, match="options was given, and tolerance as well"):
            call()


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_plans_of_ranks():
    plan = parki.distributed.ewald.Plan("laplace", POINTS, POINTS, **KEYWORDS)
    assert plan.options == OPTIONS
    with pytest.raises(parki.ParkiValueError, match="precision is 'mixed', which works for parki"):
        parki.distributed.ewald.Plan("laplace", POINTS, POINTS, **KEYWORDS, precision="mixed")


def test_compiled_functions_take_keywords():
    torch = pytest.importorskip("torch")
    trg, src, dens, _ = given("laplace", "parki.torch")
    sums = importlib.import_module("parki.torch")

    def call(dens):
        return sums.laplace(trg, src, dens, **KEYWORDS)

    torch.compiler.reset()
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(dens), call(dens), rtol=0, atol=0)


@pytest.mark.parametrize("library", LIBRARIES)
def test_sums_show_what_they_take(library):
    for name, call in calls(library).items():
        names = list(inspect.signature(call).parameters)
        assert names[:5] == ["trg", "src", "dens", "norms", "options"]
        assert names[-1] == "keywords" and ("comm" in names) == ("distributed" in library)
        assert call.__name__ == call.__qualname__ == name and call.__doc__.startswith("Sum ")


def test_types_name_what_there_is():
    """`parki.typing` repeats names, for type checkers that do not run anything."""
    options = typing.get_type_hints(parki.EwaldOptions)
    assert {n: t for n, t in options.items() if n != "_"} == typing.get_type_hints(OptionKeywords)
    assert list(typing.get_type_hints(OptionKeywords)) == [f.name for f in fields(OPTIONS)]
    for name, choices in CHOICES.items():
        found = [typing.get_args(a) or (a,) for a in typing.get_args(options[name])]
        names = {n for args in found for n in args} - {type(None)}
        assert names == set(choices), name
    assert typing.get_args(KernelName) == tuple(name for name in SUMS if "(" not in name)
    assert typing.get_args(ResultName) == parki.ewald.points.RESULTS
    for space in typing.get_args(SpaceName):
        replace(OPTIONS, execution_space=space)
        try:
            parki.get_execution_space(space)
        except parki.UnavailableError:
            continue  # a name, but not of this machine
