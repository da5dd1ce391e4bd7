"""G2P on the host side: sorts the targets by grid tiles, and launches.

Takes the far field on the grid and adds it to the results at the targets; the gradient comes from
the window's derivative, without transforms of its own.
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
    want : tuple of str
        What to compute: "u", "p", "grad_u".
    factor : float
        Inverse of the solver's length unit: turns a solver's gradient into the user's.
    """

    def __init__(
        self,
        mesh: Mesh,
        trg: Any,
        sources: CellList,
        same: bool,
        components: int,
        want: tuple[str, ...],
        factor: float,
        executor: str | None,
    ) -> None:
        self.mesh = mesh
        self.targets = sources if same else mesh.sort(trg, executor)
        self.launches = self.kernels(mesh, components, want, executor)
        self.arguments = dict(mesh.arguments, trg=self.targets.points, order=self.targets.order)
        if "grad_u" in want:
            descent = mesh.space.array_module.asarray(-factor / mesh.steps, dtype=mesh.dtype)
            self.arguments["descent"] = descent

    @staticmethod
    def kernels(
        mesh: Mesh, components: int, want: tuple[str, ...], executor: str | None
    ) -> dict[str, Kernel]:
        """Return the gathering kernels by what they gather; that of "grad_u" takes "u" along."""

        def kernel(name: str, **constants: int) -> Kernel:
            return load("g2p", name, mesh.space, executor=executor, **mesh.constants(), **constants)

        kernels = {}
        if "grad_u" in want:
            kernels["grad_u"] = kernel("g2p_gradient", COMPONENTS=components, VALUES="u" in want)
        elif "u" in want:
            kernels["u"] = kernel("g2p_target", COMPONENTS=components)
        if "p" in want:
            kernels["p"] = kernel("g2p_target", COMPONENTS=1)
        return kernels

    def apply(self, field: Any, results: dict[str, Any]) -> None:
        """Add the far field (rows, x, y, z), the pressure in its last row, to the ``results``.

        Results have shape (rows, targets), as for the near field.
        """
        for name, launch in self.launches.items():
            launch(
                self.targets.order.size,
                field=field[-1:] if name == "p" else field,
                pot=results.get("p" if name == "p" else "u"),
                gradient=results.get("grad_u"),
                **self.arguments,
            )
