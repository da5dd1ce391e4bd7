"""G2P on the host side: sorts the targets by grid tiles, and launches.

Takes the far field on the grid and adds it to the potential of the targets.
"""

from __future__ import annotations

from typing import Any

from parki.cell_list import CellList
from parki.ewald.p2g import Mesh
from parki.runtime import Kernel, load


class G2P:
    """Gathering for fixed targets.

    Parameters
    ----------
    mesh : Mesh
    trg : array, shape (3, N)
        Targets in solver units, wrapped.
    sources : CellList
        The sources sorted by tiles; reused when the targets are the sources.
    same : bool
        Whether the targets are the sources.
    components : int
        Rows of the potential, 1 or 3.
    """

    def __init__(
        self,
        mesh: Mesh,
        trg: Any,
        sources: CellList,
        same: bool,
        components: int,
        executor: str | None,
    ) -> None:
        self.mesh = mesh
        self.targets = sources if same else mesh.sort(trg, executor)
        self.launch = self.kernel(mesh, components, executor)
        self.arguments = dict(mesh.arguments, trg=self.targets.points, order=self.targets.order)

    @staticmethod
    def kernel(mesh: Mesh, components: int, executor: str | None) -> Kernel:
        """Return the gathering kernel."""
        constants = mesh.constants()
        return load(
            "g2p", "g2p_target", mesh.space, executor=executor, COMPONENTS=components, **constants
        )

    def apply(self, field: Any, pot: Any) -> None:
        """Add the far field ``field`` (rows, x, y, z) to ``pot`` (rows, targets)."""
        self.launch(pot.shape[1], field=field, pot=pot, **self.arguments)
