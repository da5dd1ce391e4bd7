"""Sums of charges by other libraries: torch-pme, mlipops, nvalchemi-toolkit-ops and OpenMM.

A `Peer` says why it is not there, or makes a solver for two clouds and one `Choice` of parameters.
All split by Gaussians, erfc(alpha r) / r, and take a mesh with windows of some order. A solver
finds its list of pairs anew for each cloud in `moved`, and keeps it in `kept`.
"""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
from benchmarks import not_installed

UNIT = 0.3  # nanometres in OpenMM for the mean distance of charges, which are then like a melt's
COULOMB = 138.935458  # kJ nm / mol
MOVED = 0.2  # of the cut-off: OpenMM's list is found again after fewer


class Choice(NamedTuple):
    """Parameters of a sum."""

    cutoff: float
    alpha: float
    mesh: int
    order: int


class Peer:
    """A library.

    Attributes
    ----------
    name : str
    needs : tuple of str
        Modules that it needs.
    dtypes : tuple of str
    orders : tuple of int
        Of windows.
    dyadic : bool
        Whether meshes are powers of two.
    package : str
        Its name in package registries.
    compiled : bool
        Whether `torch.compile` is applied to the sum.
    """

    needs: tuple[str, ...]
    dtypes: tuple[str, ...] = ("f8", "f4")
    orders: tuple[int, ...] = (5, 6, 4)
    dyadic = False
    package: str
    compiled = False

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.package + ", compiled" * self.compiled

    def missing(self, on_device: bool) -> str:
        """Return why the peer cannot run, or ''."""
        for name in self.needs:
            try:
                if not not_installed(name):
                    importlib.import_module(name)
                    continue
            except Exception as error:  # noqa: BLE001 (a library may fail in any way)
                return f"{name} cannot be imported: {error}"
            return not_installed(name)
        return ""

    @property
    def version(self) -> str:
        """The version, as it was installed."""
        return f"{self.package} {metadata.version(self.package)}"

    def solver(self, given: Any, dtype: str, choice: Choice, on_device: bool) -> Any:
        """Return an object with ``forces()`` of the first cloud, ``moved()`` and ``kept()``."""
        raise NotImplementedError

    def tuned(
        self, given: Any, dtype: str, choice: Choice, accuracy: float, on_device: bool
    ) -> Choice | None:
        """Return what the library's own function takes for a cut-off, or None without one."""
        return None

    def free(self) -> None:
        """Free a device's unused memory."""


class OpenMM(Peer):
    """PME of order 5; a step of an integrator that moves all charges, and takes their forces."""

    package, needs, orders = "OpenMM", ("openmm",), (5,)

    def __init__(self) -> None:
        self.made: tuple[Any, Any, Any] = (None, None, None)

    def missing(self, on_device: bool) -> str:
        """Return why it cannot run, or ''."""
        if reason := super().missing(on_device):
            return reason
        openmm = importlib.import_module("openmm")
        names = {openmm.Platform.getPlatform(k).getName() for k in range(_platforms(openmm))}
        if on_device and "CUDA" not in names:
            return f"OpenMM has no CUDA: {'; '.join(openmm.Platform.getPluginLoadFailures())}"
        return ""

    def _system(self, given: Any) -> tuple[Any, Any]:
        """Return the system of charges, and its force."""
        import openmm

        if self.made[0] is not given:
            system, force = openmm.System(), openmm.NonbondedForce()
            edges = given.edge * UNIT * np.eye(3)
            system.setDefaultPeriodicBoxVectors(*(openmm.Vec3(*row) for row in edges))
            for q in given.charges.tolist():
                system.addParticle(1.0)
                force.addParticle(q, 1.0, 0.0)
            force.setNonbondedMethod(openmm.NonbondedForce.PME)
            force.setUseDispersionCorrection(False)
            system.addForce(force)
            self.made = given, system, force
        return self.made[1:]

    def solver(self, given: Any, dtype: str, choice: Choice, on_device: bool) -> Any:
        """Return a solver."""
        system, force = self._system(given)
        force.setPMEParameters(choice.alpha / UNIT, *3 * (choice.mesh,))
        return _OpenMM(given, system, force, dtype, choice.cutoff, on_device)

    def tuned(
        self, given: Any, dtype: str, choice: Choice, accuracy: float, on_device: bool
    ) -> Choice | None:
        """Return what ``setEwaldErrorTolerance`` takes."""
        system, force = self._system(given)
        force.setPMEParameters(0, 0, 0, 0)
        force.setEwaldErrorTolerance(accuracy)
        made = _OpenMM(given, system, force, dtype, choice.cutoff, on_device)
        alpha, *mesh = force.getPMEParametersInContext(made.context)
        return Choice(choice.cutoff, alpha * UNIT, int(max(mesh)), 5)


class _OpenMM:
    def __init__(
        self, given: Any, system: Any, force: Any, dtype: str, cutoff: float, on_device: bool
    ) -> None:
        import openmm

        force.setCutoffDistance(cutoff * UNIT)
        self.integrator = openmm.CustomIntegrator(1e-3)
        self.integrator.addGlobalVariable("shift", 0)
        self.integrator.addGlobalVariable("total", 0)
        self.integrator.addComputePerDof("x", "x + shift")
        self.integrator.addComputePerDof("v", "f")
        self.integrator.addComputeGlobal("total", "energy")
        self.integrator.addComputeGlobal("shift", "-shift")
        names = {"f4": "CPU", "f8": "Reference"}
        platform = openmm.Platform.getPlatformByName("CUDA" if on_device else names[dtype])
        precision = {"Precision": {"f4": "single", "f8": "double"}[dtype]} if on_device else {}
        self.context = openmm.Context(system, self.integrator, platform, precision)
        self.context.setPositions(given.clouds[0] * UNIT)
        self.far = MOVED * cutoff * UNIT
        self.shift = 0.0  # or far, whose sign changes each step

    def forces(self) -> np.ndarray:
        state = self.context.getState(getForces=True)
        return np.asarray(state.getForces(asNumpy=True)._value) * UNIT**2 / COULOMB

    def _step(self, shift: float) -> None:
        if shift != self.shift:
            self.integrator.setGlobalVariableByName("shift", shift)
            self.shift = shift
        self.integrator.step(1)
        self.integrator.getGlobalVariableByName("total")  # waits

    def moved(self) -> None:
        self._step(self.far)

    def kept(self) -> None:
        self._step(0.0)


def _platforms(openmm: Any) -> int:
    number: int = openmm.Platform.getNumPlatforms()
    return number
