"""`Team`: the ranks of a sum, their common numbers and objects, and agreement on failure.

Each exchange begins with a vote. A rank that has failed since the last one reports this instead of
exchanging, and all ranks raise the same error, so that none waits for a rank that is gone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import TracebackType
from typing import Any

import numpy as np

from parki.errors import MissingPackageError, ParkiError, ParkiTypeError
from parki.interchange import to_host


class Team:
    """The ranks of an mpi4py communicator; by default ``COMM_WORLD``, all ranks.

    Attributes
    ----------
    rank, size : int
        This rank, and the number of ranks.
    """

    def __init__(self, comm: Any = None) -> None:
        self.mpi = _mpi()
        given = self.mpi.COMM_WORLD if comm is None else comm
        if not isinstance(given, self.mpi.Intracomm) or given == self.mpi.COMM_NULL:
            raise ParkiTypeError(
                f"comm is {comm!r}; expected a communicator of mpi4py, such as MPI.COMM_WORLD"
            )
        self.comm = _own(self.mpi, given)
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.agreed: BaseException | None = None  # the last error that all ranks have raised
        if self.size > 1:
            _end_together(self.mpi)

    # ------------------------------------------------------------------ failure
    @contextmanager
    def together(self) -> Iterator[None]:
        """Turn an exception on any rank in the block into one error on all ranks.

        Inside, ranks may exchange through the team and its transport only.
        """
        self.agreed = None
        try:
            yield
        except self.mpi.Exception:  # amid an exchange, where ranks cannot agree on anything
            raise
        except Exception as error:
            if self.size > 1 and error is not self.agreed:
                self._vote(error)
            raise
        self.agree()

    def agree(self) -> None:
        """Raise if another rank has failed."""
        if self.size > 1:
            self._vote(None)

    def _vote(self, error: Exception | None) -> None:
        failed = np.array([error is not None], dtype=np.int32)
        self.comm.Allreduce(self.mpi.IN_PLACE, failed)
        if not failed[0]:
            return
        report = None
        if isinstance(error, ParkiError):
            report = (type(error), str(error))
        elif error is not None:
            report = (ParkiError, f"{type(error).__name__}: {error}")
        reports = self.comm.allgather(report)
        ranks = [rank for rank, report in enumerate(reports) if report]
        kind, message = reports[ranks[0]]
        if len(set(reports)) > 1:
            others = f" (and ranks {', '.join(map(str, ranks[1:]))})" if ranks[1:] else ""
            message = f"rank {ranks[0]}{others} of {self.size}: {message}"
        self.agreed = kind(message)
        raise self.agreed from error

    # ------------------------------------------------------------------ nodes
    @cached_property
    def place_on_node(self) -> int:
        """Number of this rank on its node; a collective call."""
        node = self.comm.Split_type(self.mpi.COMM_TYPE_SHARED)
        number = int(node.Get_rank())
        node.Free()
        return number

    def in_order(self, work: Callable[[], None]) -> None:
        """Do ``work`` on one rank of each node, and then on the others.

        The others then find the first one's kernels in the node's cache.
        """
        first = self.place_on_node == 0
        if first:
            work()
        self.agree()
        if not first:
            work()

    # ------------------------------------------------------------------ small things
    def all(self, value: Any) -> list[Any]:
        """Return the objects of all ranks, in order."""
        self.agree()
        return list(self.comm.allgather(value))

    def gather(self, value: Any) -> list[Any] | None:
        """Return the objects of all ranks on rank 0, None on the others."""
        self.agree()
        found = self.comm.gather(value)
        return None if found is None else list(found)

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's object."""
        self.agree()
        return self.comm.bcast(value)

    def sum(self, values: Any) -> Any:
        """Sum a small array over all ranks, NumPy or CuPy, of the same shape on each.

        All ranks get the same result, bit for bit.
        """
        self.agree()
        if self.size == 1:
            return values
        on_device = hasattr(values, "__cuda_array_interface__")
        mine = np.ascontiguousarray(to_host(values))
        total = np.empty_like(mine)
        self.comm.Reduce(mine, total)
        self.comm.Bcast(total)
        total = total.reshape(np.shape(values))
        if on_device:
            import cupy

            return cupy.asarray(total)
        return total


def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: no MPI library
        raise MissingPackageError(
            f"parki.distributed needs mpi4py and an MPI library ({error}); install them with "
            "'pip install parki[mpi]', or mpi4py alone where the machine has MPI"
        ) from error
    return MPI


def _own(mpi: Any, comm: Any) -> Any:
    """Return parki's own communicator of these ranks, made once and kept with theirs.

    It keeps parki's messages apart from the caller's.
    """
    if not _KEY:
        _KEY.append(mpi.Comm.Create_keyval(delete_fn=lambda _comm, _key, own: own.Free()))
    own = comm.Get_attr(_KEY[0])
    if own is None:
        own = comm.Dup()
        comm.Set_attr(_KEY[0], own)
    return own


_KEY: list[int] = []


def _end_together(mpi: Any) -> None:
    """Let an uncaught exception on one rank end all ranks.

    With MPI alone, a rank that leaves Python with a traceback waits at exit for the others, and
    they wait for its part in an exchange, for ever.
    """
    previous = sys.excepthook
    if getattr(previous, "ends_together", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        rank = mpi.COMM_WORLD.Get_rank()
        if rank:
            time.sleep(1.0)  # lets the first rank print the error if it raises the same
        previous(kind, error, trace)
        sys.stderr.flush()
        time.sleep(0.3)  # on an abort, launchers drop output they have not read yet
        mpi.COMM_WORLD.Abort(1)

    hook.ends_together = True  # type: ignore[attr-defined]
    sys.excepthook = hook
