"""The solvers: what they take of libMobility's parameters."""

from __future__ import annotations

from typing import Any, NoReturn

from parki.errors import ParkiValueError
from parki.interchange import finite
from parki.libmobility.mobility import Mobility
from parki.typing import AnyArray

NET = 1e-6  # of the sizes of all forces, up to which their sum counts as zero


class Solver(Mobility):
    """Spheres with any periodic axes."""

    def setParameters(
        self,
        Lx: float | None = None,
        Ly: float | None = None,
        Lz: float | None = None,
        **options: Any,
    ) -> None:
        """Take the lengths of the box, which free axes do not need, and fields of `EwaldOptions`.

        Along a free axis with a length the box is ``[0, L)``, without one the extent of the
        positions.
        """
        self._take((Lx, Ly, Lz), options)


class PSE(Mobility):
    """Spheres in a box that repeats along all axes; unlike there, with torques and seeds, too."""

    def __init__(self, periodicityX: str, periodicityY: str, periodicityZ: str) -> None:
        super().__init__(periodicityX, periodicityY, periodicityZ)
        if not all(self.periodic):
            _only("PSE", "periodic")

    def setParameters(
        self,
        psi: float,
        Lx: float,
        Ly: float,
        Lz: float,
        shearStrain: float | None = None,
        **options: Any,
    ) -> None:
        """Take the lengths of the box, and fields of `EwaldOptions`.

        ``psi``, which divides near from far, has no meaning: parki chooses that itself.
        ``shearStrain`` must be 0.
        """
        if shearStrain:
            raise ParkiValueError(
                f"shearStrain is {shearStrain!r}; expected 0: parki.Spheres has sheared boxes"
            )
        self._take((Lx, Ly, Lz), options)


class NBody(Mobility):
    """Spheres in an infinite fluid or above a wall; unlike there, not by the sum over all pairs."""

    walls = ("single_wall",)

    def __init__(self, periodicityX: str, periodicityY: str, periodicityZ: str) -> None:
        super().__init__(periodicityX, periodicityY, periodicityZ)
        if any(self.periodic):
            _only("NBody", "open")

    def setParameters(
        self,
        algorithm: str = "advise",
        Nbatch: int = -1,
        NperBatch: int = -1,
        wallHeight: float | None = None,
        delta: float = 1e-3,
        **options: Any,
    ) -> None:
        """Take the height of the wall, and fields of `EwaldOptions`.

        ``wallHeight`` is for "single_wall" alone, which needs it. The other parameters have no
        meaning.
        """
        walled = self._kinds[2] == "single_wall"
        if walled is (wallHeight is None):
            expected = "a height" if walled else "None"
            raise ParkiValueError(
                f"wallHeight is {wallHeight!r}, but periodicityZ is {self._kinds[2]!r}; expected "
                f"{expected}"
            )
        floor = finite("wallHeight", wallHeight, "a height") if walled else 0.0
        self._take((None, None, None), options, floor)


class DPStokes(Mobility):
    """Spheres in a box that repeats along X and Y, free along Z or with one or two walls there.

    Unlike there, also of any radii. Spheres are above the walls with their whole surfaces.
    """

    walls = ("single_wall", "two_walls")

    def __init__(self, periodicityX: str, periodicityY: str, periodicityZ: str) -> None:
        super().__init__(periodicityX, periodicityY, periodicityZ)
        if self.periodic != (True, True, False):
            raise ParkiValueError(
                "DPStokes is for axes X and Y that are 'periodic', and Z that is 'open', "
                "'single_wall' or 'two_walls'; take parki.libmobility.Solver for others"
            )
        self._any_forces = False

    def setParameters(
        self,
        Lx: float,
        Ly: float,
        zmin: float,
        zmax: float,
        allowChangingBoxSize: bool = False,
        delta: float = 1e-3,
        allowUnsafeForces: bool = False,
        **options: Any,
    ) -> None:
        """Take the lengths of the box, and fields of `EwaldOptions`.

        Positions are between ``zmin``, where the lower wall is, and ``zmax``, where the upper one
        is. parki does not change boxes, and chooses the step of finite differences itself. Without
        walls forces must add up to zero, unless ``allowUnsafeForces``: then parki's gauge says what
        the fluid does as a whole.
        """
        low, high = finite("zmin", zmin, "a height"), finite("zmax", zmax, "a height")
        if not low < high:
            raise ParkiValueError(f"zmin is {zmin!r} and zmax {zmax!r}; expected a larger zmax")
        self._any_forces = bool(allowUnsafeForces)
        self._take((Lx, Ly, high - low), options, low)

    def _moved(self, acts: dict[str, AnyArray]) -> list[Any]:
        forces = acts.get("forces")
        if forces is not None and self._kinds[2] == "open" and not self._any_forces:
            total, size = abs(forces.sum(axis=1)).max(), abs(forces).sum()
            if total > NET * size:
                raise ParkiValueError(
                    f"forces add up to {float(total):.3g}, but periodicityZ is 'open', where they "
                    "move all fluid without limit; take out their mean, or pass "
                    "allowUnsafeForces=True to setParameters"
                )
        return super()._moved(acts)


def _only(name: str, kind: str) -> NoReturn:
    raise ParkiValueError(
        f"{name} is for three axes that are {kind!r}; take parki.libmobility.Solver for others"
    )
