"""A sum is its record: nothing else in parki knows kernels by their names."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import parki
from examples import EXAMPLES, of_masses
from parki import extend
from parki.ewald.far.pairings import SYMBOLS
from parki.ewald.points import RESULTS, TENSOR
from parki.ewald.sums import SUMS, TERMS, Interaction, register, sources, symbols
from parki.ewald.sums.adjoint import Adjoint, velocity
from parki.ewald.sums.gauges import OF_FORCES, OF_SCREENED, WITH_FRICTION
from parki.ewald.sums.names import always
from parki.ewald.sums.record import error_terms_of
from parki.ewald.sums.sources import CHARGE
from parki.ewald.sums.symbols import POTENTIAL
from parki.ewald.sums.tables import RadialTables, Table
from parki.ewald.sums.written import pair_of
from parki.runtime.specialise import kernel_directory

ROOT = Path(parki.__file__).parent
# The reference shares nothing with the solver.
SOURCES = [p for p in ROOT.rglob("*.py") if p.parent.name not in ("reference", "sums")]


OWN = of_masses().make().pair.file  # a path, of the sum of the tests alone


def test_nobody_compares_names_or_asks_which_sum_it_is():
    """A sum is asked for its values, and never whether it is one of them."""
    assert len(SOURCES) > 100
    which = {"single", "double", "laplace", "rotlet", "dipole", "harmonic"}
    names, found = {*SUMS, *TERMS}, []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            texts: set[object] = set()
            if isinstance(node, ast.Compare):
                texts = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
            if texts & names or (isinstance(node, ast.Attribute) and node.attr in which):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    assert not found


def test_kernels_know_sums_by_their_files_alone():
    """A pair function is a file of kernels/pairs, a tensor structure one of kernels/symbols."""
    folder = kernel_directory()
    of_sums = {"pairs": {each.pair.file for each in SUMS.examples()} - {OWN, ""}}
    of_sums["symbols"] = {each.symbol.structure for each in SUMS.examples()}
    for name, files in of_sums.items():
        assert files == {path.stem for path in (folder / name).glob("*.py")}
    which = {"SINGLE", "DOUBLE", "LAPLACE", "ROTLET", "DIPOLE", "STOKES"}
    found = [
        f"{path.relative_to(folder)}:{node.lineno}: {node.id}"
        for path in folder.rglob("*.py")
        if path.parent.name not in of_sums
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id in which
    ]
    assert not found


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=str)
def test_records_agree_with_the_reference(example):
    """Rows of densities and results, normals, and the quantities that there are."""
    rng, kernel = np.random.default_rng(0), example.kind
    points, want = rng.random((3, 5)), tuple(n for n in kernel.terms if n in RESULTS)
    given = points, points, example.density(rng, 5), example.normals(rng, 5)
    fields = dict(zip(want, example.exact(*given, periodicity=0, want=want), strict=True))
    assert fields["u"].size == kernel.results * 5
    assert ("p" in kernel.terms or bool(kernel.pressure)) == (kernel.results == 3)
    for name, terms in kernel.terms.items():
        if name == TENSOR:
            assert [term.power for term in terms] == [each.decay + 2 for each in kernel.sources]
            continue
        assert fields[name].any() == bool(terms)
        powers = {source.decay + (name != "u") for source in kernel.sources}
        assert {term.power for term in terms} <= powers
    assert kernel.pair.power == min(source.decay - source.normal for source in kernel.sources)


def test_sums_are_registered_once():
    assert "gravity" not in [*SUMS] and SUMS["gravity"].rows == 1
    for name in ("gravity", "doublet"):
        words = f"there is a sum '{name}' already; register it by another name"
        with pytest.raises(parki.ParkiValueError, match=words):
            register(name, of_masses())


def test_what_is_registered_is_named_alike_and_has_terms_of_its_own():
    before, terms = [*SUMS.families], dict(TERMS)
    with pytest.raises(parki.ParkiValueError, match="the record of 'mass' is named 'gravity'; nam"):
        register("mass", of_masses())
    of_laplace = error_terms_of("laplace", symbols.POTENTIAL, sources.CHARGE, aligned={"u": 1})
    record = replace(SUMS["laplace"], name="mine", terms=of_laplace, adjoints={})
    with pytest.raises(
        parki.ParkiValueError, match="there is a term 'laplace' already; give error"
    ):
        register("mine", always(record, None))
    screened = replace(SUMS["yukawa(kappa=2.0)"], name="mine")
    with pytest.raises(parki.ParkiValueError, match="the sum 'mine' has a screening length"):
        register("mine", always(screened, None))
    assert [*SUMS.families] == before and terms == TERMS


def test_registered_sums_have_no_calls_but_plans():
    torch = pytest.importorskip("torch")
    import parki.torch

    assert not hasattr(parki, "gravity") and not hasattr(parki.torch, "gravity")
    points = np.random.default_rng(0).random((3, 20))
    plan = parki.Plan("gravity", points, points, periodicity=3, box=[1, 1, 1])
    masses = torch.ones(20, dtype=torch.float64, requires_grad=True)
    parki.torch.apply(plan, masses)[0].sum().backward()
    one = np.array([[1.0], [0], [0]]) + 0 * points
    np.testing.assert_allclose(masses.grad.numpy(), plan.adjoint(one))


def test_symbols_take_the_sources_that_the_page_lists():
    """All of them, with the decays and gauges that stand there, and no others."""
    page = (ROOT.parent / "docs" / "adding-a-sum.md").read_text(encoding="utf-8")
    listed = set()
    for row in re.findall(r"^\| `([A-Z_]+)` \| (.*) \| ([\d, ]+) \| `(\w+)` \|", page, re.M):
        symbol, decays = getattr(extend, row[0]), map(int, row[2].split(", "))
        of = tuple(getattr(extend, name) for name in re.findall(r"`(\w+)`", row[1]))
        own = tuple(each._replace(decay=n) for each, n in zip(of, decays, strict=True))
        terms = error_terms_of("trial", symbol, own[-1], aligned={"u": 1})
        given = "trial", symbol, pair_of(symbol, own, (2, 20)), own
        Interaction(*given, gauge=getattr(extend, row[3], None), terms=terms)
        listed.add((symbol, of))
        if row[3] != "None":
            with pytest.raises(parki.ParkiValueError, match="trial falls as 1 / r, so that net"):
                Interaction(*given, gauge=None, terms=terms)
        moved = own[0]._replace(decay=own[0].decay + 1), *own[1:]
        with pytest.raises(parki.ParkiValueError, match=r"sources that its|has a first source of"):
            Interaction(*given[:3], moved, gauge=None, terms=terms)
    every = {symbol for symbol, _ in listed}
    groups = [group for each in sources.TAKEN.values() for group in each]
    taken = {(s, g) for s in every for g in groups if sources.fit(g, s.structure, s.components)}
    # A torque is no force: it takes the pair functions that fall faster.
    assert taken == listed | {(symbols.FLOW, (sources.TORQUE,))} and len(every) == 6
    record = SUMS["laplace"]
    for others in ((sources.FORCE,), (sources.QUADRUPOLE,), (sources.CHARGE, sources.QUADRUPOLE)):
        with pytest.raises(parki.ParkiValueError, match="sources that its symbol does not take"):
            replace(record, sources=others)


def test_curls_of_curls_have_no_mean():
    """With three periodic axes: the page says what they lack of the gradients of dipoles."""
    rng = np.random.default_rng(0)
    points, forces = rng.random((3, 20)), rng.standard_normal((3, 20))
    options = parki.EwaldOptions(periodicity=3, box=[1.0, 1.2, 0.8], tolerance=1e-6)
    plan = parki.Plan("doublet", points, points, options)
    slopes = parki.reference.direct_sum(
        "laplace_dipole", points, points, forces, options=options, want="grad_u"
    )
    exact = -slopes - 4 * np.pi * forces.sum(axis=1)[:, None] / 0.96
    error = plan(forces) - exact
    assert np.sqrt((error**2).sum(axis=0).mean()) <= plan.promise(forces)


def test_pages_import_what_is_public():
    """All that programs with sums of their own need is in `parki.extend`, and its docstring."""
    modules = {}
    for path in (ROOT.parent / "docs").rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        if path.name == "architecture.md":  # the first program there is made of what is inside
            text = text.partition("## The house")[2]
        for program in re.findall(r"^```python.*?^```", text, re.M | re.S):
            for module in re.findall(r"^\s*(?:from|import) (parki\.\w[\w.]*)", program, re.M):
                modules.setdefault(module, set()).add(path.name)
    inner = {name: pages for name, pages in modules.items() if name.count(".") > 1}
    assert not inner and "parki.ewald" not in modules
    assert {"adding-a-sum.md", "derivatives.md"} <= modules["parki.extend"]
    for name in extend.__all__:
        assert f"`{name}`" in extend.__doc__


# --- records that lack something ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sources": CHARGE}, r"no tuple of Source; give one source as \(source,\)"),
        ({"symbol": POTENTIAL._replace(screening=2.0)}, "a symbol with screening, but not such"),
        ({"gauge": OF_SCREENED}, "a symbol without screening, but not such a gauge; give OF_CH"),
        ({"gauge": OF_FORCES}, "has results of 1 rows, but not such a gauge; give OF_CHARGES"),
    ],
)
def test_records_that_would_be_wrong(changes, words):
    with pytest.raises(parki.ParkiValueError, match=words):
        replace(SUMS["laplace"], name="trial", **changes)


def test_a_pair_function_of_another_sum():
    """One of the same power, which no other check sees."""
    pair = SUMS["stokes_rotlet"].pair
    with pytest.raises(parki.ParkiValueError, match="has a pair function of another symbol or of"):
        replace(SUMS["laplace_dipole"], name="trial", pair=pair)


def test_a_gauge_of_sums_that_need_none():
    with pytest.raises(parki.ParkiValueError, match=r"falls as 1 / r\^2, so that .* gauge=None"):
        replace(SUMS["laplace_dipole"], name="trial", gauge=SUMS["laplace"].gauge)


def test_adjoints_of_other_rows(monkeypatch):
    """The sum that is the transpose has to take a result as its density."""
    adjoints = {"u": Adjoint(kernel="laplace", want=("u",), results=velocity)}
    name = trial(monkeypatch, adjoints=adjoints)
    points = np.random.default_rng(0).random((3, 9))
    plan = parki.Plan(name, points, points, periodicity=3, box=[1, 1, 1])
    with pytest.raises(parki.ParkiValueError, match=r"hands 3 rows of 'u' to laplace, whose .* 1"):
        plan.adjoint(points)


def test_gradients_of_vectors_are_summed_apart():
    """Screened ones, too: the pair function of both at once is one of potentials."""
    for kappa in (0.0, 2.0):
        symbol = symbols.SLOPE._replace(screening=kappa)
        pair = pair_of(symbol, (sources.CHARGE._replace(decay=2),), (2, 20))
        assert not pair.slopes and pair.derivatives


def test_parts_that_would_be_wrong():
    """What makes the parts of a record refuses what is impossible, in the words of a record."""
    with pytest.raises(parki.ParkiValueError, match="pair_of has sources that its symbol does not"):
        pair_of(symbols.FLOW, (CHARGE,), (1, 1))
    with pytest.raises(parki.ParkiValueError, match="pair_of has operations=20; expected two num"):
        pair_of(symbols.POTENTIAL, (CHARGE,), 20)
    with pytest.raises(parki.ParkiValueError, match="pair_of has sources that are no tuple of Sou"):
        pair_of(POTENTIAL, CHARGE, (1, 1))
    for source, result in ((CHARGE, "v"), ((CHARGE,), "u")):
        with pytest.raises(parki.ParkiValueError, match=r"the terms of mine are .* one Source"):
            error_terms_of("mine", POTENTIAL, source, aligned={result: 1})
    with pytest.raises(parki.ParkiValueError, match="the terms of mine are aligned for p, but the"):
        error_terms_of("mine", symbols.CURL, sources.TORQUE, aligned={"u": 1, "p": 1})
    for symbol, source in ((symbols.FLOW, CHARGE), (symbols.CURL, sources.FORCE)):
        with pytest.raises(parki.ParkiValueError, match=r"the terms of mine are of a source of sh"):
            error_terms_of("mine", symbol, source, aligned={"u": 1})
    with pytest.raises(parki.ParkiValueError, match=r"family of 'mine' is .* such as always"):
        register("mine", SUMS["laplace"])


def test_families_have_examples():
    family = SUMS.families["yukawa"]._replace(example={})
    with pytest.raises(parki.ParkiValueError, match="'trial' has no example of kappa; give one"):
        register("trial", family)


def test_tables_that_no_split_has():
    tables = RadialTables({Table("psi", 1): np.zeros(3)})
    with pytest.raises(parki.ParkiValueError, match="takes psi_2, of which its split has no table"):
        tables.psi(2)
    assert tables.get(Table("psi", 2)) is None


def trial(monkeypatch, **changes):
    """Return the name of a sum that parki does not have: the single layer with changes."""
    record = replace(SUMS["stokes_sl"], name="trial", **changes)
    families = {**SUMS.families, "trial": always(record, None)}
    monkeypatch.setattr(SUMS, "families", families)
    monkeypatch.setattr(SUMS, "_unlisted", SUMS._read)
    return "trial"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"terms": {}}, "the sum trial has terms of nothing; expected one or more of"),
        ({"terms": {"u": ()}}, "the sum trial has terms of u; expected one or more"),
        ({"terms": SUMS["stokes_sl"].terms | {"stress": ()}}, "perhaps terms of p, grad_u"),
        ({"terms": {"u": SUMS["stokes_sl"].terms["u"]}}, "has adjoints of .* alone"),
        ({"symbol": symbols.FLOW._replace(order=3)}, "has a symbol of order 3; expected 1 or 2"),
    ],
)
def test_records_are_checked_when_they_are_made(changes, message, monkeypatch):
    with pytest.raises(parki.ParkiValueError, match=message):
        trial(monkeypatch, **changes)


ENDLESS = (
    symbols.FLOW._replace(screening=2.0, structure="slope"),
    symbols.CURL._replace(structure="other"),
)


@pytest.mark.parametrize("symbol", ENDLESS)
@pytest.mark.parametrize("periodicity", [0, 1, 2, (False, True, True)])
def test_a_symbol_without_a_kernel_that_ends(symbol, periodicity, monkeypatch):
    """It has three periodic axes, whatever else could be summed."""
    more = {"gauge": WITH_FRICTION} if symbol.screening else {}
    pair = SUMS["stokes_sl"].pair._replace(file="mine")
    name = trial(monkeypatch, symbol=symbol, pair=pair, **more)
    points = np.random.default_rng(0).random((3, 9))
    with pytest.raises(parki.ParkiValueError, match="trial has three periodic axes alone"):
        parki.Plan(name, points, points, periodicity=periodicity, box=[1, 1, 1])
    given = {"values": points, "periodicity": periodicity, "box": [1, 1, 1]}
    with pytest.raises(parki.ParkiValueError, match="trial has three periodic axes alone"):
        parki.vjp(name, points, points, points, **given)


def test_results_without_terms_are_refused_by_name(monkeypatch):
    kind, points = SUMS["stokes_sl"], np.random.default_rng(0).random((3, 9))
    terms, adjoints = ({"u": of["u"]} for of in (kind.terms, kind.adjoints))
    name = trial(monkeypatch, terms=terms, adjoints=adjoints)
    for want, lacks in (("grad_u", "gradient"), ("p", "pressure"), ("stress", "pressure")):
        with pytest.raises(parki.ParkiValueError, match=f"'{want}', but trial has no {lacks}"):
            parki.Plan(name, points, points, periodicity=3, box=[1, 1, 1], want=want)


def test_strains_of_other_structures_are_differences_or_refused_by_name():
    """Sums that have no calls, too."""
    rng, refused = np.random.default_rng(0), []
    points = rng.random((3, 9))
    others = [each for each in SUMS.examples() if each.symbol.structure not in SYMBOLS]
    for each in others:
        dens = rng.standard_normal(each.density_shape(9))
        values = rng.standard_normal((3, 9) if each.results == 3 else 9)

        def weighted(length, name=each.name, dens=dens, values=values):
            there, how = points * [[length], [1], [1]], {"box": [length, 1, 1], "tolerance": 1e-9}
            return np.vdot(parki.Plan(name, there, there, periodicity=3, **how)(dens), values)

        how = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-9}
        how |= {"values": values, "wrt": ("box", "trg", "src")}
        try:
            found = parki.vjp(each.name, points, points, dens, **how)
        except parki.ParkiValueError as error:
            refused.append(each.name in str(error))
            continue
        exact = (weighted(1.001) - weighted(0.999)) / 0.002
        moved = found["box"][0] + ((found["trg"] + found["src"])[0] * points[0]).sum()
        assert abs(moved - exact) < 1e-4 * abs(exact), each.name
    assert all(refused) and 0 < len(refused) < len(others)


COPIES = Path(__file__).parent / "pair_functions"


def test_pair_functions_are_their_copies():
    """A change of the generator shows as a change of formulas, which somebody then reads."""
    written = {name.partition("(")[0]: SUMS[name].p2p()["PAIRS"] for name in SUMS}
    copies = {path.stem: path.read_text(encoding="utf-8") for path in COPIES.glob("*.txt")}
    for name, text in written.items():
        assert text == copies.pop(name), "see scripts/pair_functions.py"
    assert not copies
