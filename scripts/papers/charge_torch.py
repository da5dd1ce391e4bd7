"""Sums of charges by libraries with PyTorch: torch-pme, mlipops and nvalchemi-toolkit-ops."""

from __future__ import annotations

import importlib
import itertools
import math
import warnings
from typing import Any

import numpy as np

from papers.charge_peers import Choice, Peer


class _Torch:
    """A solver with PyTorch: energies and their derivatives by positions."""

    def __init__(self, given: Any, dtype: str, on_device: bool) -> None:
        import torch

        self.torch = torch
        self.device = "cuda" if on_device else "cpu"
        self.dtype = {"f4": torch.float32, "f8": torch.float64}[dtype]
        self.cell = self.send(given.edge * np.eye(3))
        self.charges = self.send(given.charges)
        self.clouds = [self.send(cloud).requires_grad_() for cloud in given.clouds]
        self.turn = itertools.cycle((1, 0))
        self.found: Any = None

    def send(self, values: Any) -> Any:
        """Return a tensor."""
        return self.torch.tensor(values, dtype=self.dtype, device=self.device)

    def pairs(self, x: Any) -> Any:
        """Return the list of pairs."""
        raise NotImplementedError

    def energy(self, x: Any, pairs: Any) -> Any:
        """Return the energy, to be differentiated."""
        raise NotImplementedError

    def _forces(self, x: Any) -> Any:
        energy = self.energy(x, self.found)
        return -self.torch.autograd.grad(energy, x)[0]

    def forces(self) -> np.ndarray:
        """Return the forces of the first cloud."""
        self.found = self.pairs(self.clouds[0])
        found: np.ndarray = self._forces(self.clouds[0]).double().cpu().numpy()
        return found

    def moved(self) -> None:
        """Compute energy and forces of the next cloud."""
        x = self.clouds[next(self.turn)]
        self.found = self.pairs(x)
        self._forces(x)

    def kept(self) -> None:
        """Compute them again with the list that was found last for the first cloud."""
        self._forces(self.clouds[0])


class _TorchPeer(Peer):
    def __init__(self, *, compiled: bool = False) -> None:
        self.compiled = compiled

    def missing(self, on_device: bool) -> str:
        """Return why it cannot run, or ''."""
        if self.compiled and not on_device:
            return "torch.compile is measured on GPUs alone"
        return super().missing(on_device)

    def made(self, solver: Any) -> Any:
        """Return a solver, whose sum is compiled if that is asked for."""
        if self.compiled:
            solver.sum = solver.torch.compile(solver.sum)
        return solver

    def free(self) -> None:
        importlib.import_module("torch").cuda.empty_cache()


class TorchPme(_TorchPeer):
    """P3M with windows of 4 or 5 points, and PME with 7; lists of pairs by vesin."""

    package, needs, orders, dyadic = "torch-pme", ("torchpme", "vesin"), (5, 4, 7), True

    def solver(self, given: Any, dtype: str, choice: Choice, on_device: bool) -> Any:
        """Return a solver."""
        return self.made(_TorchPme(given, dtype, choice, on_device))

    def tuned(
        self, given: Any, dtype: str, choice: Choice, accuracy: float, on_device: bool
    ) -> Choice | None:
        """Return what ``tune_p3m`` takes, on meshes around the one of ``choice``."""
        from torchpme.tuning import tune_p3m

        made = _TorchPme(given, dtype, choice, on_device)
        x = made.clouds[0].detach()
        pairs, shifts = made.pairs(x)
        apart = made.apart(x, pairs, shifts)
        most = round(math.log2(choice.mesh))
        limits = {"mesh_lo": most - 1, "mesh_hi": most, "nodes_lo": 4}
        how = {"accuracy": float(accuracy * given.rms), **limits}
        arrays = (made.charges[:, None], made.cell, x, choice.cutoff, pairs, apart)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            smearing, found, _ = tune_p3m(*arrays, **how)
        mesh = 2 ** math.ceil(math.log2(2 * given.edge / found["mesh_spacing"] + 1))
        alpha = 1 / math.sqrt(2) / float(smearing)
        return Choice(choice.cutoff, alpha, mesh, found["interpolation_nodes"])


class _TorchPme(_Torch):
    def __init__(self, given: Any, dtype: str, choice: Choice, on_device: bool) -> None:
        import torchpme
        import vesin

        super().__init__(given, dtype, on_device)
        kind = torchpme.P3MCalculator if choice.order <= 5 else torchpme.PMECalculator
        self.sum = kind(
            torchpme.CoulombPotential(smearing=1 / math.sqrt(2) / choice.alpha),
            # It takes the power of two above 2 L / spacing + 1.
            mesh_spacing=2 * given.edge / (choice.mesh - 1) * (1 + 1e-6),
            interpolation_nodes=choice.order,
        ).to(device=self.device, dtype=self.dtype)
        self.list = vesin.NeighborList(cutoff=choice.cutoff, full_list=False)

    def pairs(self, x: Any) -> Any:
        pairs, shifts = self.list.compute(x.detach(), self.cell, True, "PS")
        return pairs.to(self.torch.int64), shifts.to(self.dtype)

    def apart(self, x: Any, pairs: Any, shifts: Any) -> Any:
        between = x[pairs[:, 1]] - x[pairs[:, 0]] + shifts @ self.cell
        return self.torch.linalg.norm(between, dim=1)

    def energy(self, x: Any, pairs: Any) -> Any:
        q = self.charges[:, None]
        return (q * self.sum(q, self.cell, x, pairs[0], self.apart(x, *pairs))).sum()


class MlipOps(_TorchPeer):
    """PME in single precision, the only one that it has; by Triton on GPUs."""

    package, needs, dtypes = "mlipops", ("mlipops",), ("f4",)

    def solver(self, given: Any, dtype: str, choice: Choice, on_device: bool) -> Any:
        """Return a solver."""
        return self.made(_MlipOps(given, dtype, choice, on_device))


class _MlipOps(_Torch):
    def __init__(self, given: Any, dtype: str, choice: Choice, on_device: bool) -> None:
        import mlipops

        super().__init__(given, dtype, on_device)
        lists = mlipops.NeighborList(choice.cutoff, device=self.device)
        numbers = (*3 * (choice.mesh,), choice.order, choice.alpha, 1.0)
        self.sum = mlipops.CoulombPME(lists, None, *numbers)

    def pairs(self, x: Any) -> Any:
        return None  # it keeps the list of the tensor that it had last

    def energy(self, x: Any, pairs: Any) -> Any:
        return self.sum(x, self.charges, self.cell).sum()


class Nvalchemi(_TorchPeer):
    """PME with NVIDIA's Warp; lists by a prepared state, as its manual recommends."""

    package, needs = "nvalchemi-toolkit-ops", ("warp", "nvalchemiops")

    def solver(self, given: Any, dtype: str, choice: Choice, on_device: bool) -> Any:
        """Return a solver."""
        return self.made(_Nvalchemi(given, dtype, choice, on_device))

    def tuned(
        self, given: Any, dtype: str, choice: Choice, accuracy: float, on_device: bool
    ) -> Choice | None:
        """Return what ``estimate_pme_parameters`` takes."""
        from nvalchemiops.torch.interactions import electrostatics

        made = _Torch(given, dtype, on_device)
        how = {"accuracy": accuracy, "real_space_cutoff": choice.cutoff}
        found = electrostatics.estimate_pme_parameters(made.clouds[0].detach(), made.cell, **how)
        return Choice(choice.cutoff, float(found.alpha), int(max(found.mesh_dimensions)), 5)


class _Nvalchemi(_Torch):
    def __init__(self, given: Any, dtype: str, choice: Choice, on_device: bool) -> None:
        from nvalchemiops.torch import neighbors
        from nvalchemiops.torch.interactions import electrostatics

        super().__init__(given, dtype, on_device)
        self.find, self.sum = neighbors.neighbor_list, electrostatics.particle_mesh_ewald
        periodic = self.torch.ones(1, 3, dtype=self.torch.bool, device=self.device)
        cell = self.cell[None]
        first = self.clouds[0].detach()
        # Its own guess is for less dense atoms, and the list would lack pairs without a word.
        most = 16 * math.ceil(1 + 1.15 * 4 / 3 * math.pi * choice.cutoff**3 / 16)
        how = {"max_neighbors": most, "fixed_cell": True}
        self.state = neighbors.prepare_neighbor_list(first, choice.cutoff, cell, periodic, **how)
        mesh = 3 * (choice.mesh,)
        vectors, squared = electrostatics.generate_k_vectors_pme(cell, mesh)
        # What its manual has computed once in a fixed cell.
        fft, of = self.torch.fft, {"dtype": self.dtype, "device": self.device}
        modes = [make(choice.mesh, 1 / choice.mesh, **of) for make in (fft.fftfreq, fft.rfftfreq)]
        whole, half = (
            electrostatics.compute_bspline_moduli_1d(k, choice.mesh, choice.order) for k in modes
        )
        self.how = {
            "alpha": self.send([choice.alpha]),
            "mesh_dimensions": mesh,
            "spline_order": choice.order,
            "k_vectors": vectors,
            "k_squared": squared,
            "volume": self.send([given.edge**3]),
            "cell_inv_t": self.torch.linalg.inv(cell).transpose(1, 2).contiguous(),
            "moduli_x": whole,
            "moduli_y": whole,
            "moduli_z": half,
            "energy_reduction": "system",
        }

    def pairs(self, x: Any) -> Any:
        return self.find(x.detach(), state=self.state)

    def energy(self, x: Any, pairs: Any) -> Any:
        lists = {"neighbor_matrix": pairs[0], "neighbor_matrix_shifts": pairs[2]}
        return self.sum(x, self.charges, self.cell[None], **lists, **self.how).sum()
