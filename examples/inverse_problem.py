"""Forces and positions of swimmers, found from the noisy velocities of tracers in a film.

    python examples/inverse_problem.py [--swimmers 24] [--noise 0.05] [--output inverse.png]

The film repeats along two axes. A swimmer of length 1 pushes the fluid away at both of its ends by
opposite forces along its direction, as most bacteria do. Tracers among the swimmers move with the
flow, and their velocities are measured, with noise. The program finds from these velocities only

1. the forces at both ends of every swimmer, if the ends are known. Velocities are linear in the
   forces, and LSMR finds the best ones. It needs products with `Plan.as_linear_operator` and with
   its transpose, which is `Plan.adjoint`. The two forces of a swimmer come out opposite, although
   the fit does not assume it.
2. the swimmers' positions as well, if a camera has seen them only roughly. Velocities are not
   linear in the positions. L-BFGS uses the gradient of the misfit, which PyTorch computes backwards
   through `parki.torch.stokes_sl` to sources and densities.

D. C.-L. Fong and M. A. Saunders, LSMR: an iterative algorithm for sparse least-squares problems,
SIAM Journal on Scientific Computing 33, 2950-2971 (2011).
"""

import argparse
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.linalg import lsmr

import parki

BOX, LAYER = 12.0, 2.0  # in lengths of a swimmer, as below
HEIGHT = LAYER + 4.0  # of the box, which also has to hold the moving ends
FORCE = 6.0 / (8 * np.pi)  # of a typical swimmer, over 8 pi times the viscosity
CLEAR = 0.3  # least distance of tracers from ends, where point forces are a poor model
# The camera's errors of positions and of directions (of length 1), along each axis.
BLUR, TILT = 0.2, 0.3
OPTIONS = parki.EwaldOptions(periodicity=2, box=[BOX, BOX, HEIGHT], tolerance=1e-4)
INK, PAPER, GREY, FOUND = "#1d1b2e", "#fbfaf8", "#a9a7b0", "#d55e00"


@dataclass
class Swimmers:
    """Swimmers and their forces.

    Attributes
    ----------
    centres, pushes : ndarray, shape (3, n)
        Centres, and forces at one end, along the directions; the other end has the opposite ones.
    """

    centres: np.ndarray
    pushes: np.ndarray

    @property
    def ends(self) -> np.ndarray:
        """Both ends of all swimmers, shape (3, 2 n)."""
        half = self.pushes / np.linalg.norm(self.pushes, axis=0) / 2
        return np.concatenate([self.centres + half, self.centres - half], axis=1)

    @property
    def forces(self) -> np.ndarray:
        """The forces at the ends."""
        return np.concatenate([self.pushes, -self.pushes], axis=1)


@dataclass
class Search:
    """The result of L-BFGS, and the path to it, with one entry per evaluation in each list.

    Attributes
    ----------
    path : list of Swimmers
    misfit : list of float
        Rms of the velocities' residual over the rms of the noise.
    best : Swimmers
    """

    path: list[Swimmers]
    misfit: list[float]
    best: Swimmers


@dataclass
class Result:
    """Errors of the answers.

    Attributes
    ----------
    net : float
        Rms of the sum of a swimmer's two forces by LSMR, over the rms of its push.
    before, after : float
        Rms error of the centres by the camera, and by L-BFGS.
    push : float
        Rms error of the pushes by L-BFGS, over the rms of the pushes.
    misfit : float
        The last misfit of L-BFGS.
    """

    net: float
    before: float
    after: float
    push: float
    misfit: float


def rms(vectors: np.ndarray) -> float:
    """Return the rms length of vectors (3, n)."""
    return float(np.sqrt(np.mean(np.sum(vectors**2, axis=0))))


def in_layer(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return random points of the layer, shape (3, count)."""
    return rng.random((3, count)) * [[BOX], [BOX], [LAYER]] + [[0], [0], [(HEIGHT - LAYER) / 2]]


def truth(count: int, rng: np.random.Generator) -> Swimmers:
    """Return swimmers with random positions, directions and strengths."""
    directions = rng.standard_normal((3, count))
    directions /= np.linalg.norm(directions, axis=0)
    return Swimmers(in_layer(rng, count), FORCE * rng.uniform(0.5, 1.5, count) * directions)


def clear_of(points: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the points that are not too close to an end."""
    r = points[:, :, None] - ends[:, None]
    r[:2] -= BOX * np.rint(r[:2] / BOX)
    return points[:, (np.sum(r**2, axis=0) > CLEAR**2).all(axis=1)]


def measure(
    swimmers: Swimmers, tracers: int, noise: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return tracers, their velocities with noise, shape (3, n) each, and the rms of the noise."""
    points = clear_of(in_layer(rng, tracers), swimmers.ends)
    flow = parki.stokes_sl(points, swimmers.ends, swimmers.forces, OPTIONS)
    size = noise * rms(flow)
    return points, flow + size / np.sqrt(3) * rng.standard_normal(flow.shape), size


def blurred(swimmers: Swimmers, rng: np.random.Generator) -> Swimmers:
    """Return the swimmers as a camera sees them, all with the same strength."""
    shape = swimmers.centres.shape
    directions = swimmers.pushes / np.linalg.norm(swimmers.pushes, axis=0)
    directions = directions + TILT * rng.standard_normal(shape)
    pushes = FORCE * directions / np.linalg.norm(directions, axis=0)
    return Swimmers(swimmers.centres + BLUR * rng.standard_normal(shape), pushes)


def forces_at(ends: np.ndarray, tracers: np.ndarray, velocities: np.ndarray) -> tuple[Any, int]:
    """Return the best forces (2, 3, n) at known ends, and the number of LSMR's steps."""
    plan = parki.Plan("stokes_sl", tracers, ends, None, OPTIONS)
    matrix = plan.as_linear_operator()
    forces, _, steps, *_ = lsmr(matrix, velocities.ravel(), atol=1e-6, btol=1e-6)
    return forces.reshape(3, 2, -1).swapaxes(0, 1), steps


def fit(
    seen: Swimmers, tracers: np.ndarray, velocities: np.ndarray, noise: float, steps: int
) -> Search:
    """Move swimmers, and change their pushes, until their flow fits the tracers."""
    import torch

    import parki.torch

    points, measured = torch.from_numpy(tracers), torch.from_numpy(velocities)
    centres = torch.tensor(seen.centres, requires_grad=True)
    pushes = torch.tensor(seen.pushes, requires_grad=True)
    found = Search([], [], seen)
    method = torch.optim.LBFGS(
        [centres, pushes],
        max_iter=steps,
        history_size=30,
        line_search_fn="strong_wolfe",
        tolerance_change=1e-7,
    )

    def evaluate() -> Any:
        method.zero_grad()
        half = pushes / pushes.norm(dim=0) / 2
        ends = torch.cat([centres + half, centres - half], dim=1)
        flow = parki.torch.stokes_sl(points, ends, torch.cat([pushes, -pushes], dim=1), OPTIONS)
        loss = (flow - measured).square().sum() / (points.shape[1] * noise**2)
        loss.backward()
        found.path.append(now())
        found.misfit.append(loss.item() ** 0.5)
        return loss

    def now() -> Swimmers:
        return Swimmers(centres.detach().numpy().copy(), pushes.detach().numpy().copy())

    method.step(evaluate)
    found.best = now()
    return found


def push_error(found: Swimmers, true: Swimmers) -> float:
    """Return the relative rms error of the pushes; an opposite push counts as the same."""
    apart = [np.sum((found.pushes - sign * true.pushes) ** 2, axis=0) for sign in (1, -1)]
    return float(np.sqrt(np.minimum(*apart).mean())) / rms(true.pushes)


def draw(
    output: str,
    true: Swimmers,
    seen: Swimmers,
    search: Search,
    tracers: np.ndarray,
    velocities: np.ndarray,
) -> None:
    """Draw measurements, true, seen and found swimmers, and the path of L-BFGS."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.6, 5.0), dpi=110, facecolor=PAPER)
    FigureCanvasAgg(figure)
    square = (0.77 * 5.0 / 12.6, 0.77)
    places = (0.04, 0.115, *square), (0.39, 0.115, *square), (0.765, 0.115, 0.225, 0.77)
    left, middle, right = (figure.add_axes(place, facecolor=PAPER) for place in places)

    def show(axes: Any, swimmers: Swimmers, **look: Any) -> None:
        """Draw lines from end to end, from above, and their periodic images."""
        ends = swimmers.ends.reshape(3, 2, -1)[:2].transpose(2, 1, 0)
        shifts = [(i, j) for i in (-BOX, 0, BOX) for j in (-BOX, 0, BOX)]
        lines = np.concatenate([ends + shift for shift in shifts])
        axes.add_collection(LineCollection(lines, capstyle="round", **look))

    # Tracers in mid-height; arrows show their direction, colours their speed.
    some = np.abs(tracers[2] - HEIGHT / 2) < LAYER / 4
    speed = np.linalg.norm(velocities[:, some], axis=0)
    left.quiver(
        *tracers[:2, some],
        *velocities[:2, some] / speed,
        np.log10(speed),
        cmap="viridis_r",
        scale=28,
        width=0.003,
        headwidth=4,
    )
    show(left, true, color=INK, linewidths=3)
    left.set(xlim=(0, BOX), ylim=(0, BOX), aspect="equal")
    left.set_title("The film, and the tracers' velocities", loc="left", fontweight="bold")
    left.set_xlabel("x and y, in lengths of a swimmer")

    show(middle, seen, color=GREY, linewidths=2, linestyles=(0, (1, 1.6)))
    show(middle, true, color=INK, linewidths=5)
    show(middle, search.best, color=FOUND, linewidths=1.8)
    side = BOX / 2
    corner = max(
        ((x, y) for x in (0, side) for y in (0, side)),
        key=lambda at: np.sum(np.all(np.abs(true.centres[:2].T - at - side / 2) < 0.4 * side, 1)),
    )
    middle.set(xlim=(corner[0], corner[0] + side), ylim=(corner[1], corner[1] + side))
    middle.set_aspect("equal")
    middle.set_title("A quarter of it:", loc="left", fontweight="bold", color=INK)
    for word, colour, place in (("true", INK, 0.38), ("seen", GREY, 0.5), ("found", FOUND, 0.64)):
        how = {"transform": middle.transAxes, "fontweight": "bold", "fontsize": 12}
        middle.text(place, 1.021, word, color=colour, va="baseline", **how)

    steps = np.arange(1, len(search.misfit) + 1)
    apart = [rms(each.centres - true.centres) for each in search.path]
    right.semilogy(steps, search.misfit, color=INK, linewidth=2)
    right.semilogy(steps, apart, color=FOUND, linewidth=2)
    first = len(steps) // 8
    for line, words, colour in (
        (search.misfit, "misfit, over the noise", INK),
        (apart, "error of places, in lengths", FOUND),
    ):
        right.text(steps[first], line[first] * 1.4, words, color=colour)
    right.axhline(1, color=INK, linewidth=1, linestyle="--")
    right.set_xlabel("evaluation of sum and gradient")
    right.set_title("The way of L-BFGS", loc="left", fontweight="bold")
    right.spines[["top", "right"]].set_visible(False)
    right.grid(color=INK, alpha=0.12)
    figure.savefig(output, facecolor=PAPER)


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--swimmers", type=int, default=24)
    parser.add_argument("--tracers", type=int, default=1500)
    parser.add_argument("--noise", type=float, default=0.05, help="over the rms of the velocities")
    parser.add_argument("--steps", type=int, default=200, help="most iterations of L-BFGS")
    parser.add_argument("--output", default="inverse.png", help="picture; '' draws nothing")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> Result:
    given = arguments(words)
    if importlib.util.find_spec("torch") is None:
        raise SystemExit("PyTorch is not installed; 'pip install torch' brings it")
    rng = np.random.default_rng(0)
    true = truth(given.swimmers, rng)
    tracers, velocities, noise = measure(true, given.tracers, given.noise, rng)
    print(f"{given.swimmers} swimmers, {tracers.shape[1]} tracers, noise {given.noise:.0%}")

    (head, tail), steps = forces_at(true.ends, tracers, velocities)
    net = rms(head + tail) / rms(true.pushes)
    wrong = rms((head - tail) / 2 - true.pushes) / rms(true.pushes)
    print(
        f"1. ends known, forces unknown: LSMR takes {steps} steps; pushes wrong by {wrong:.1%}, "
        f"and the two forces of a swimmer add up to {net:.1%} of one"
    )

    seen = blurred(true, rng)
    search = fit(seen, tracers, velocities, noise, given.steps)
    result = Result(
        net,
        rms(seen.centres - true.centres),
        rms(search.best.centres - true.centres),
        push_error(search.best, true),
        search.misfit[-1],
    )
    print(
        f"2. ends seen roughly: L-BFGS takes {len(search.misfit)} evaluations; misfit over the "
        f"noise {search.misfit[0]:.1f}, then {result.misfit:.2f}\n"
        f"   centres wrong by {result.before:.3f}, then {result.after:.3f} lengths; "
        f"pushes wrong by {push_error(seen, true):.0%}, then {result.push:.1%}"
    )
    if given.output and importlib.util.find_spec("matplotlib") is None:
        print("No picture: matplotlib is not installed; 'pip install parki[plot]' brings it.")
    elif given.output:
        draw(given.output, true, seen, search, tracers, velocities)
        print(f"Picture: {Path(given.output)}")
    return result


if __name__ == "__main__":
    main()
