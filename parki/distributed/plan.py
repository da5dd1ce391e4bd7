"""`Plan` over the points of all ranks: a sum whose pipeline is a slab on each of them."""

from __future__ import annotations

import math
from typing import Any, cast

from parki.distributed.routes import Route
from parki.distributed.slab import Slab
from parki.distributed.slabs import Slabs
from parki.distributed.team import Team
from parki.distributed.transport import Transport
from parki.errors import ParkiValueError
from parki.ewald.api import summed
from parki.ewald.options import EwaldOptions
from parki.ewald.placement.any_plan import AnyPlan
from parki.ewald.points import check_points, take_options
from parki.ewald.sums import with_parameters
from parki.interchange import as_array, as_given, check_space
from parki.typing import (
    AnyArray,
    AnyKernel,
    Array,
    ArrayT,
    OptionKeywords,
    SumKeywords,
    Unpack,
    Wanted,
)


class Plan(AnyPlan[Wanted]):
    """An Ewald sum over the points of all ranks: set up once, apply to many densities.

    All ranks make the same calls, each with its own points and densities. An exception on one rank
    is raised on all of them.

    Parameters
    ----------
    kernel, trg, src, norms, options, want, **keywords
        As for `parki.ewald.Plan`; the points, normals and density of this rank, of which there may
        be none. Kernel, options, dtype and ``want`` are the same on all ranks.
    comm : mpi4py.MPI.Comm, optional
        The ranks that take part, not to be freed before the plan. Default: all (``COMM_WORLD``).

    Raises
    ------
    ParkiValueError, ParkiTypeError
        As for `parki.ewald.Plan`, on all ranks; and if ranks ask for different sums.
    ParkiMemoryError
        On all ranks, if those of a node or of a device need more memory than is free there.

    Notes
    -----
    For other points (`update_points`) each rank may have more than before, or fewer. Slabs keep
    their bounds until one of them has 1.3 times the work it would have with others. Points that are
    on their slab's rank when they are given (`owners`, `migrate`) cross no network; ranks that have
    nothing for each other exchange nothing.

    Examples
    --------
    >>> import numpy as np, parki
    >>> from parki import distributed
    >>> points = np.random.default_rng(0).random((3, 1000))  # of this rank
    >>> options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-6)
    >>> plan = distributed.Plan("stokes_sl", points, points, options)
    >>> plan(np.ones((3, 1000))).shape
    (3, 1000)
    """

    def __init__(
        self,
        kernel: AnyKernel,
        trg: Array,
        src: Array,
        norms: Array | EwaldOptions | None = None,
        options: EwaldOptions | None = None,
        *,
        comm: Any = None,
        want: Wanted = "u",  # type: ignore[assignment]
        **keywords: Unpack[SumKeywords],
    ) -> None:
        self.team = Team(comm, Slab)
        with self.team.collective("options"):  # that that one rank refuses are refused on all
            kernel, others = with_parameters(kernel, keywords)
            norms, options = take_options(norms, options, others)
        super().__init__(self.team, kernel, trg, src, norms, options, want=want)

    @property
    def pipeline(self) -> Slab:
        """The stages of this rank."""
        return cast(Slab, super().pipeline)

    @property
    def slabs(self) -> Slabs:
        """What each rank works on: planes of the grid, and the points in them."""
        return self.pipeline.slabs

    @property
    def transport(self) -> Transport:
        """How arrays move; ``transport.sent`` counts the bytes."""
        return self.pipeline.transport

    @property
    def sent(self) -> dict[str, int]:
        """Bytes that this rank sent to others in the last application, by step."""
        return self.pipeline.sent

    def owners(self, points: Array) -> Any:
        """Return the rank on whose slab each point is; shape (N,) for points (3, N).

        All ranks call it.
        """
        with self.exclusive(), self.team.collective("owners"):
            return self._owners(points)

    def _owners(self, points: Array) -> Any:
        if self.parameters is None:
            raise ParkiValueError("the plan has no points, and so no slabs")
        array = as_array("points", points)
        check_space("points", array, self.space)
        check_points("points", array, self.options)
        return self.pipeline.owners(self.terms[0].task.order.to_solver(array))

    def migrate(self, points: ArrayT, *others: ArrayT) -> tuple[ArrayT, ...]:
        """Return points, and what belongs to them, on the ranks on whose slabs they are.

        All ranks call it. Where points stay near where they are, few of them change ranks, most of
        these to neighbours; a plan made of them, or updated, then has little to send.

        Parameters
        ----------
        points : array, shape (3, N)
        *others : array, shape (..., N)
            Such as normals, charges or densities: their columns go with the points.

        Returns
        -------
        tuple of arrays
        """
        migrating = (points, *others)
        call = f"migrate of {len(migrating)} arrays"
        with self.exclusive(), self.team.collective(call):
            owners = self._owners(points)
            route = Route.by_owner(self.transport, owners)
            arrays = [as_array(f"array {n}", values) for n, values in enumerate(migrating)]
            for n, array in enumerate(arrays):
                if array.shape[-1:] != (route.order.size,):
                    raise ParkiValueError(
                        f"array {n} has shape {array.shape}; expected (..., {route.order.size}), "
                        "a column for each point"
                    )
            there = []
            for array in arrays:
                shape: tuple[int, ...] = array.shape[:-1]
                rows = array.reshape(math.prod(shape), array.shape[-1])
                moved = route.forward("migration", rows)
                there.append(moved.reshape((*shape, moved.shape[1])))
        return tuple(as_given(values, like) for values, like in zip(there, migrating, strict=True))


def sum_once(
    kernel: str,
    trg: AnyArray,
    src: AnyArray,
    dens: AnyArray,
    norms: AnyArray | EwaldOptions,
    options: EwaldOptions | None,
    keywords: OptionKeywords,
    *,
    comm: Any,
    want: str | tuple[str, ...],
) -> Any:
    """Return the sum of one density over all ranks: see `parki.distributed.stokes_sl`."""
    team = Team(comm, Slab)
    with team.collective("options"):
        norms, options = take_options(norms, options, keywords)
    return summed(kernel, trg, src, dens, norms, options, want=want, ranks=team)
