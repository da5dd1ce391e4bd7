"""A model of charges, trained on forces: PyTorch differentiates the sum twice.

    python examples/force_matching.py [--atoms 32] [--frames 8] [--steps 150]

Atoms in a periodic box have charges that depend on their neighbours, as in machine-learned
potentials. The energy is half the sum of the charges times their potentials, and forces are minus
its gradient by the positions. That gradient takes in that charges change with the positions, too.

1. A model with known parameters makes the data: positions, and forces with `create_graph=False`.
2. Another model starts elsewhere. Its loss is the misfit of forces alone, which are a gradient
   already. So training takes second derivatives of `parki.torch.energy`, by positions and charges.

The parameters come out as those of the first model.
"""

import argparse
import importlib.util
from typing import Any, NamedTuple

import numpy as np

import parki

BOX, REACH = 6.0, 2.0
OPTIONS = parki.EwaldOptions(periodicity=3, box=[BOX] * 3, tolerance=1e-6)
TRUE, START = [1.0, -0.6, 0.35], [0.7, -0.4, 0.0]


class Result(NamedTuple):
    """Parameters found, and the misfit of forces over their size before and after."""

    found: np.ndarray
    before: float
    after: float


def positions(atoms: int, rng: np.random.Generator) -> np.ndarray:
    """Return atoms of a lattice that is shaken, shape (3, atoms)."""
    side = int(np.ceil(atoms ** (1 / 3)))
    places = np.stack(np.meshgrid(*[np.arange(side)] * 3), axis=0).reshape(3, -1)[:, :atoms]
    return (places + 0.5 + 0.25 * (rng.random(places.shape) - 0.5)) * BOX / side


def charges(points: Any, parameters: Any) -> Any:
    """Return charges of two kinds of atoms, which change with neighbours of the other kind."""
    import torch

    apart = points[:, :, None] - points[:, None]
    apart = apart - BOX * torch.round(apart / BOX)
    square = apart.square().sum(dim=0) / REACH**2
    near = torch.where(square < 1, (1 - square).clamp(min=0) ** 3, 0)
    kind = torch.arange(points.shape[1]) % 2
    other = (kind[:, None] != kind[None]).to(points)
    given = parameters[:2][kind] * (1 + parameters[2] * (near * other).sum(dim=1))
    return given - given.mean()


def forces(points: Any, parameters: Any, train: bool) -> Any:
    """Return the forces (3, atoms), which can be differentiated again if ``train``."""
    import torch

    import parki.torch

    points = points.detach().requires_grad_()
    q = charges(points, parameters)
    energy = parki.torch.energy(points, q, OPTIONS)
    (slope,) = torch.autograd.grad(energy, points, create_graph=train)
    return -slope


def train(frames: list[Any], wanted: list[Any], steps: int) -> Result:
    """Return the parameters whose forces are those that are wanted."""
    import torch

    parameters = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    method = torch.optim.LBFGS([parameters], max_iter=steps, line_search_fn="strong_wolfe")
    size = sum(each.square().sum() for each in wanted)
    losses = []

    def evaluate() -> Any:
        method.zero_grad()
        pairs = zip(frames, wanted, strict=True)
        loss = sum((forces(x, parameters, True) - f).square().sum() for x, f in pairs) / size
        loss.backward()
        losses.append(loss.item() ** 0.5)
        return loss

    method.step(evaluate)
    return Result(parameters.detach().numpy(), losses[0], min(losses))


def main(words: list[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--atoms", type=int, default=32)
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--steps", type=int, default=150, help="most iterations of L-BFGS")
    given = parser.parse_args(words)
    if importlib.util.find_spec("torch") is None:
        raise SystemExit("PyTorch is not installed; 'pip install torch' brings it")
    import torch

    rng = np.random.default_rng(0)
    frames = [torch.from_numpy(positions(given.atoms, rng)) for _ in range(given.frames)]
    true = torch.tensor(TRUE, dtype=torch.float64)
    wanted = [forces(points, true, train=False) for points in frames]
    result = train(frames, wanted, given.steps)
    print(f"misfit of forces {result.before:.2f} of their size before, {result.after:.1e} after")
    for name, one, other in zip(
        ("charge 1", "charge 2", "change"), TRUE, result.found, strict=True
    ):
        print(f"{name}: {one:.3f}, found {other:.3f}")
    return result


if __name__ == "__main__":
    main()
