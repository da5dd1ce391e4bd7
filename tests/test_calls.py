"""Calls come from the list of sums: names, signatures, docstrings, options, parameters of sums."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pickle
import pydoc
import re
import subprocess
import sys
import typing
from dataclasses import fields, replace

import lists
import numpy as np
import pytest
from started import MISSING

import parki
from parki.ewald.api import calls
from parki.ewald.options import CHOICES, expert
from parki.ewald.pipeline import one_shot
from parki.ewald.sums import SUMS
from parki.typing import OptionKeywords, ResultName, SpaceName

MODULES = ["parki.ewald.api", "parki.distributed.api", "parki.torch", "parki.jax"]
FACES = ["parki", "parki.ewald", *MODULES]
KEYWORDS = {"periodicity": 2, "box": [1, 1, 1], "tolerance": 1e-2, "densities": "any"}
OPTIONS = parki.EwaldOptions(**KEYWORDS)
POINTS = np.random.default_rng(0).random((3, 20))
CHARGES = np.random.default_rng(1).standard_normal(20)


def face(name):
    """Return a module with calls; skip where its library is not installed."""
    if name == "parki.distributed.api" and MISSING:
        pytest.skip(MISSING)
    for library in ("torch", "jax"):
        if name == f"parki.{library}":
            pytest.importorskip(library)
    return importlib.import_module(name)


def arrays(name, *given):
    """Return points and charges, or what is given, for a module."""
    given = given or (POINTS, CHARGES)
    if name != "parki.torch":
        return given
    torch = importlib.import_module("torch")
    return [None if a is None else torch.as_tensor(a) for a in given]


def test_plain_names_are_not_computed():
    """A call without parameters costs what it did before there were any."""

    def total(kernel, trg, src, dens, norms=None, options=None, **keywords):
        return kernel

    asked = []
    found = calls(total, named=lambda *args, **given: asked.append(args))
    assert found["laplace"](0, 0, 0) == "laplace" and found["stokes_sl"](0, 0, 0) == "stokes_sl"
    assert found["stokes_sl"](0, 0, 0, tolerance=1e-3) == "stokes_sl"
    assert not asked


@pytest.mark.parametrize("name", MODULES)
def test_refusals(name):
    module, (points, charges) = face(name), arrays(name)
    for call, given, message in (
        ("yukawa", {}, r"^yukawa needs kappa, as in 'yukawa\(kappa=2.0\)'$"),
        ("yukawa", {"kappa": -1.0}, r"^kappa is -1; expected a positive"),
        ("yukawa", {"kappa": 1.0, "epsilon": 1}, "^yukawa takes kappa; it has no 'eps"),
        ("laplace", {"kappa": 2.0}, "^laplace takes epsilon, blob; it has no 'kappa'$"),
        ("stokes_sl", {"tol": 1e-3}, r"^unknown option 'tol'; .*expert; .* take .*\bkappa\b"),
    ):
        with pytest.raises(parki.ParkiError, match=message):
            getattr(module, call)(points, points, charges, OPTIONS, **given)
    both = r"^options was given, and box, tolerance as well; give all options as keywords"
    for error, given, message in (
        (parki.ParkiTypeError, {"options": OPTIONS, "box": [1, 1, 1], "tolerance": 1e-2}, both),
        (parki.ParkiTypeError, {"norms": OPTIONS, "box": [1, 1, 1], "tolerance": 1e-2}, both),
        (parki.ParkiTypeError, {"options": OPTIONS, "tol": 1}, "'tol'; did you mean tolerance"),
        (parki.ParkiTypeError, {}, r"or its fields as keywords of the call$"),
        (parki.ParkiValueError, {"tolerance": 1e-2}, r"^box is missing, but periodicity is 3"),
    ):
        with pytest.raises(error, match=message):
            module.laplace(points, points, charges, **given)
    with pytest.raises(TypeError, match=r"laplace\(\) missing 2 required positional arguments"):
        module.laplace(points)
    with pytest.raises(parki.ParkiTypeError, match=r"'kappa'; EwaldOptions takes .* parki\.kernel"):
        parki.EwaldOptions(kappa=2.0, **KEYWORDS)


@pytest.mark.parametrize("name", MODULES)
def test_parameters_are_shown(name):
    module = face(name)
    shown = inspect.signature(module.stokes_sl).parameters
    assert [*shown][:7] == ["trg", "src", "dens", "norms", "options", "epsilon", "blob"]
    assert [*shown][-1] == "keywords"
    assert shown["epsilon"].kind is shown["blob"].kind is inspect.Parameter.KEYWORD_ONLY
    assert shown["blob"].default == "gaussian"
    assert inspect.signature(module.yukawa).parameters["kappa"].default is inspect.Parameter.empty
    blob = '\nblob : {"gaussian", "prolate", "cortez"}, optional\n    Its shape. '
    assert blob in module.stokes_sl.__doc__
    assert "\nkappa : float\n    The inverse" in module.yukawa.__doc__
    assert "charges, options, kappa=2.0)" in module.yukawa.__doc__


@pytest.mark.parametrize("name", FACES)
def test_every_sum_has_its_call(name):
    module = face(name)
    for each, family in SUMS.listed.items():
        call = getattr(module, each)
        assert call is pickle.loads(pickle.dumps(call))
        assert call.__name__ == call.__qualname__ == each
        names = list(inspect.signature(call).parameters)
        assert names[:5] == ["trg", "src", "dens", "norms", "options"]
        assert names[-1] == "keywords" and ("comm" in names) == ("distributed" in name)
        assert call.__doc__.startswith(f"Sum {family.words.title}: ``{family.words.formula}``.\n")
        for section in ("Parameters", "Returns", "Raises", "Examples"):
            assert f"\n\n{section}\n{'-' * len(section)}\n" in call.__doc__
        assert max(map(len, call.__doc__.splitlines())) <= 100
        assert set(family.words.parameters) == set(family.parameters)
    names: dict[str, object] = {}
    exec(f"from {name} import *", names)
    assert {*SUMS.listed} <= {*module.__all__} <= {*names}
    assert len(module.__all__) == len({*module.__all__})


@pytest.mark.each
@pytest.mark.parametrize("family", SUMS.listed)
@pytest.mark.parametrize("name", ["parki", *MODULES[1:]])
def test_examples_run(name, family):
    call = getattr(face(name), family)
    test = doctest.DocTestParser().get_doctest(call.__doc__, {}, f"{name}.{family}", None, None)
    ran = doctest.DocTestRunner().run(test)
    assert ran.attempted > 4 and not ran.failed


def test_plans_take_parameters():
    plan = parki.Plan("yukawa", POINTS, POINTS, OPTIONS, kappa=2.0)
    assert plan.kernel == parki.kernel("yukawa", kappa=2.0)
    with pytest.raises(parki.ParkiTypeError, match="laplace takes epsilon, blob; it has no 'kap"):
        parki.Plan("laplace", POINTS, POINTS, OPTIONS, kappa=2.0)


def test_what_users_are_shown():
    """Names, help and completion have what users call, and nothing else."""
    assert dir(parki) == sorted([*parki.__all__, "__version__"])
    fields_of = [field.name for field in fields(parki.EwaldOptions)]
    assert [n for n in dir(parki.EwaldOptions) if n[0] != "_"] == sorted(fields_of)
    assert [n for n in dir(OPTIONS) if n[0] != "_"] == sorted(fields_of)
    text = pydoc.plain(pydoc.render_doc(parki.EwaldOptions))
    assert "images_below" not in text and "exclude_image" in text
    shown = parki.__doc__.partition("\n\n")[2]
    for name in (*SUMS.listed, "Plan", "Spheres", "vjp", "Surface"):
        assert re.search(rf"^    {name} +[A-Z].*\.$", shown, re.M), name


def test_points_alone_import_nothing_that_is_built_on_sums():
    code = "import parki, sys; parki.stokes_sl; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[1] for name in run.stdout.split() if name[:6] == "parki."}
    assert "ewald" in loaded
    assert not loaded & {"distributed", "dynamics", "mesh", "reference", "surfaces", "suspensions"}


def test_parameters_are_no_options():
    taken = {field.name for field in fields(parki.EwaldOptions)} | {"want", "comm", "systems"}
    assert not taken & {*SUMS.parameters}


@pytest.mark.parametrize("path", lists.texts(), ids=lambda path: path.name)
def test_lists_are_those_of_the_records(path):
    assert path.read_text(encoding="utf-8") == lists.texts()[path], "python tests/helpers/lists.py"


def test_type_checkers_have_every_keyword():
    """They read them in `calls.pyi`, which nobody runs."""
    body = ast.parse(lists.CALLS.read_text(encoding="utf-8")).body
    keywords = next(each for each in body if getattr(each, "name", "") == "_Keywords")
    names = {each.target.id for each in keywords.body if isinstance(each, ast.AnnAssign)}
    assert names == {"comm", "exclude", "systems", "boxes", "periodicities"}
    assert not names & typing.get_type_hints(OptionKeywords).keys()


# ---------------------------------------------------------------------- options as keywords
@pytest.mark.each
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("family", SUMS.listed)
def test_keywords_are_options_and_parameters(name, family, monkeypatch):
    """For all sums: what arrives is what was given, in either way, and names without parameters."""
    call, made, seen, expected = getattr(face(name), family), SUMS.families[family], [], []
    record = made.make(**made.example)
    dens = np.random.default_rng(1).random(record.density_shape(20))
    norms = POINTS[::-1].copy() if record.normals else None
    given = arrays(name, POINTS, POINTS, dens, norms)

    def spy(*args, **_):
        seen.append((args[0], args[4]))
        raise InterruptedError

    monkeypatch.setattr(one_shot, "take_cloud", spy)
    of_blobs = [{"epsilon": 0.1, "blob": "prolate"}] * ("epsilon" in made.parameters)
    for parameters in (made.example, *of_blobs):
        listed = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
        for options, keywords in (((OPTIONS,), {}), ((), KEYWORDS)):
            with pytest.raises(InterruptedError):
                call(*given, *options, **keywords, **parameters)
            expected.append((f"{family}({listed})" if parameters else family, OPTIONS))
    assert seen == expected


def test_plans_and_derivatives():
    trg, src, dens = POINTS, POINTS, CHARGES
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
    plan = parki.distributed.Plan("laplace", POINTS, POINTS, **KEYWORDS)
    assert plan.options == OPTIONS


def test_types_name_what_there_is():
    """`parki.typing` repeats names, for type checkers that do not run anything."""
    options = typing.get_type_hints(parki.EwaldOptions)
    names = {n: t for n, t in options.items() if n != "_"} | {"expert": typing.Any}
    assert names == typing.get_type_hints(OptionKeywords)
    assert list(typing.get_type_hints(OptionKeywords)) == [f.name for f in fields(OPTIONS)]
    inner = typing.get_type_hints(parki.Expert)
    for name, choices in {**CHOICES, **expert.CHOICES}.items():
        types, of = (inner, parki.Expert()) if name in inner else (options, OPTIONS)
        found = [typing.get_args(a) or (a,) for a in typing.get_args(types[name])]
        names = {n for args in found for n in args} - {type(None)}
        assert names == set(choices), name
        with pytest.raises(parki.ParkiValueError, match=f"{name} is 'fast'; expected one of "):
            replace(of, **{name: "fast"})
    assert typing.get_args(ResultName) == parki.ewald.points.RESULTS
    for space in typing.get_args(SpaceName):
        replace(OPTIONS, execution_space=space)
        try:
            parki.get_execution_space(space)
        except parki.UnavailableError:
            continue  # a name, but not of this machine
