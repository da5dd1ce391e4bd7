"""`Progress` draws on terminals alone, and keeps the residuals."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from rich.console import Console
from scipy.sparse.linalg import cg, gmres

import parki

MATRIX = np.diag(np.linspace(1, 10, 50))


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def drawn(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_gmres_is_drawn():
    console = terminal()
    with parki.Progress("GMRES", rtol=1e-6, console=console) as show:
        _, status = gmres(MATRIX, np.ones(50), rtol=1e-6, callback=show, callback_type="pr_norm")
        show._display.refresh()
        done = show._display.tasks[0].percentage
    assert status == 0
    assert done > 95
    assert show.count == len(show.residuals) > 5
    assert show.residuals[-1] <= 1e-6
    assert f"{show.count}, residual {show.residuals[-1]:.1e}" in drawn(console)


@pytest.mark.parametrize("scale", [1, 1e-6, 1e6])
def test_bar_follows_the_residual(scale):
    """Whatever the scale: SciPy divides the preconditioned residual by the plain right side."""
    with parki.Progress("GMRES", rtol=1e-8, console=terminal()) as show:
        for step in range(1, 9):
            show(np.float64(scale * 0.1**step))
            percentage = 12.5 * step if step > 1 else 0
            assert show._display.tasks[0].percentage == pytest.approx(percentage)
        show(np.inf)  # no part is known
        show(np.nan)
        assert show._display.tasks[0].percentage == pytest.approx(100)


@pytest.mark.parametrize("scale", [1e-7, 1e7])
def test_bar_with_a_scaled_preconditioner(scale):
    """It is neither full from the start nor empty at the end."""
    parts, options = [], {"rtol": 1e-6, "M": scale * np.eye(50), "callback_type": "pr_norm"}

    def callback(residual):
        show(residual)
        parts.append(show._display.tasks[0].percentage)

    with parki.Progress("GMRES", rtol=1e-6, console=terminal()) as show:
        _, status = gmres(MATRIX, np.ones(50), callback=callback, **options)
    assert status == 0
    steps = np.linspace(0, 100, len(parts))
    np.testing.assert_allclose(parts, steps, atol=15)


def test_steps_are_drawn():
    console = terminal()
    show = parki.Progress("falling", console=console)
    for step in show.over(range(4)):
        assert show.count == step
        assert show._display.tasks[0].percentage == 25 * step
    assert show.count == 4
    assert "falling" in drawn(console)


def test_vectors_count_as_steps():
    with parki.Progress("CG", console=terminal()) as show:
        cg(MATRIX, np.ones(50), callback=show)
    assert show.count > 5
    assert show.residuals == []


def test_silent_without_a_terminal(capfd):
    with parki.Progress("GMRES", rtol=1e-6) as show:
        show(0.1)
    assert list(parki.Progress("steps").over("abc")) == ["a", "b", "c"]
    assert capfd.readouterr() == ("", "")
    show(0.01)  # after its end it still counts
    assert show.residuals == [0.1, 0.01]


def test_the_inner_of_two_is_silent():
    inner, again = terminal(), terminal()
    for _ in parki.Progress("steps", console=terminal()).over(range(2)):
        with parki.Progress("GMRES", console=inner) as show:
            show(0.1)
    assert drawn(inner) == ""
    with parki.Progress("GMRES", console=again) as show:
        show(0.1)
    assert "GMRES" in drawn(again)


def test_output_of_a_program_stays_its_own(capsys):
    console = terminal()
    with parki.Progress("GMRES", console=console):
        print("to a file")
    assert capsys.readouterr().out == "to a file\n"
    assert "to a file" not in drawn(console)


def test_without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(parki.MissingPackageError, match=r"draws with rich.*'pip install rich'"):
        list(parki.Progress("steps").over(range(3)))
    show = parki.Progress("GMRES")  # which is not drawn
    show(0.1)
    assert show.residuals == [0.1]


def test_errors_teach():
    with pytest.raises(parki.ParkiValueError, match="rtol is 0; expected a positive number"):
        parki.Progress("GMRES", rtol=0)
    with pytest.raises(parki.ParkiTypeError, match="steps is 'ten'; expected a positive number"):
        parki.Progress("steps", steps="ten")  # type: ignore[arg-type]
    with pytest.raises(parki.ParkiTypeError, match="residual is 'small'; expected a number"):
        parki.Progress("GMRES")("small")
