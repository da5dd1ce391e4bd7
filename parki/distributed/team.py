"""`Team`: the ranks of a sum, their common numbers and objects, and agreement on what they do.

Each exchange begins with a vote on what each rank is about to do: in which call, of which plan, at
which step. A rank that has failed since the last vote reports this instead of exchanging, as does
one whose program ends. All ranks then raise the same error, as they do if they are in different
calls, so that none waits for a rank that is gone, or that exchanges something else.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any
from zlib import crc32

import numpy as np

from parki.errors import MissingPackageError, ParkiError, ParkiTypeError, ParkiValueError
from parki.ewald.ranks import Ranks
from parki.interchange import to_host
from parki.runtime.forks import cached_property


class PrivateComm:
    """parki's own communicator of some ranks, and what all teams of these ranks have in common.

    Attributes
    ----------
    lock : RLock
        Exchanges of several threads would mix: one call goes on at a time.
    calls : list of str
        The calls that this rank is in, the innermost last.
    votes : int
        How many there were. All ranks have the same number, as each takes part in each vote.
    agreed : ParkiError or None
        The last error that all ranks have raised.
    """

    def __init__(self, mpi: Any, comm: Any) -> None:
        self.mpi, self.comm, self.lock = mpi, comm, threading.RLock()
        self.calls: list[str] = []
        self.votes = 0
        self.agreed: ParkiError | None = None

    def vote(self, step: str, error: Exception | None = None) -> None:
        """Raise the same error on all ranks if one has an error, or is elsewhere than others.

        A step is what the rank is about to do within its innermost call.
        """
        self.votes += 1
        where = f"{' > '.join(self.calls)} ({step})" if self.calls else step
        # Numbers, of which the largest and, by the sign, the smallest are compared.
        step_hash = crc32(where.encode())
        told = np.array([error is not None, step_hash, -step_hash], dtype=np.int64)
        self.comm.Allreduce(self.mpi.IN_PLACE, told, self.mpi.MAX)
        failed, most, least = told.tolist()
        if not failed and most == -least:
            return
        report: Any = where
        if failed:
            report = None
            if isinstance(error, ParkiError):
                report = (type(error), str(error))
            elif error is not None:
                report = (ParkiError, f"{type(error).__name__}: {error}")
        reports = self.comm.allgather(report)
        if not failed:
            other = next(rank for rank, report in enumerate(reports) if report != reports[0])
            self.agreed = ParkiValueError(
                f"ranks are in different calls: rank 0 of {len(reports)} is at {reports[0]}, but "
                f"rank {other} is at {reports[other]}; all ranks make the same calls with the same "
                "kinds of arguments, in the same order, also where several threads call plans"
            )
            raise self.agreed
        ranks = [rank for rank, report in enumerate(reports) if report]
        kind, message = reports[ranks[0]]
        if len(set(reports)) > 1:
            others = f" (and ranks {', '.join(map(str, ranks[1:]))})" if ranks[1:] else ""
            message = f"rank {ranks[0]}{others} of {len(reports)}: {message}"
        self.agreed = kind(message)
        raise self.agreed from error


def _no_engine(team: Any) -> Any:
    raise NotImplementedError("this team exchanges arrays alone")


class Team(Ranks):
    """The ranks of an mpi4py communicator.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        Default: ``COMM_WORLD``, all ranks.
    engine : callable, optional
        Makes a pipeline without points for the ranks; none is needed to exchange arrays alone.
    """

    serial = False

    def __init__(self, comm: Any = None, engine: Callable[[Any], Any] = _no_engine) -> None:
        super().__init__(engine)
        self.mpi = _mpi()
        communicator = self.mpi.COMM_WORLD if comm is None else comm
        if not isinstance(communicator, self.mpi.Intracomm) or communicator == self.mpi.COMM_NULL:
            raise ParkiTypeError(
                f"comm is {comm!r}; expected a communicator of mpi4py, such as MPI.COMM_WORLD"
            )
        self._private = _private(self.mpi, communicator)
        self.comm = self._private.comm
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        # Tells plans apart: the votes before its first one, which all ranks count equally.
        self._number: int | None = None

    # ------------------------------------------------------------------ agreement
    @contextmanager
    def collective(self, call: str = "") -> Iterator[None]:
        """Turn an exception on any rank in the block into one error on all ranks.

        Inside, ranks may exchange through the team and its transport only. A ``call`` is its name,
        with what decides which exchanges follow: ranks whose calls differ raise an error.
        """
        if self.size == 1:
            yield
            return
        with self._private.lock, self._called(call):
            self._private.agreed = None
            try:
                yield
            except self.mpi.Exception:  # amid an exchange, where ranks cannot agree on anything
                raise
            except Exception as error:
                if error is not self._private.agreed:
                    self._private.vote("failure", error)
                raise
            self.agree("end")

    @contextmanager
    def _called(self, call: str) -> Iterator[None]:
        if self._number is None:
            self._number = self._private.votes
        self._private.calls.append(f"{call or 'a call'} of plan {self._number}")
        try:
            yield
        finally:
            self._private.calls.pop()

    def agree(self, step: str) -> None:
        """Raise if another rank has failed, or is at another step or in another call."""
        if self.size > 1:
            with self._private.lock:
                self._private.vote(step)

    # ------------------------------------------------------------------ nodes
    @cached_property
    def place_on_node(self) -> int:
        """Number of this rank on its node; a collective call."""
        self.agree("nodes")
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
        self.agree("the first of each node")
        if not first:
            work()

    # ------------------------------------------------------------------ small things
    def allgather(self, value: Any) -> list[Any]:
        """Return the objects of all ranks, in order."""
        self.agree("telling all")
        return list(self.comm.allgather(value))

    def gather(self, value: Any) -> list[Any] | None:
        """Return the objects of all ranks on rank 0, None on the others."""
        self.agree("telling rank 0")
        gathered = self.comm.gather(value)
        return None if gathered is None else list(gathered)

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's object."""
        self.agree("hearing rank 0")
        return self.comm.bcast(value)

    def sum(self, value: Any) -> Any:
        """Sum a number, or a small array, NumPy or CuPy, of the same shape on each, over all ranks.

        All ranks get the same result, bit for bit.
        """
        if not hasattr(value, "dtype"):
            return float(self.sum(np.array(value)))
        self.agree(f"sum of {value.dtype} {np.shape(value)}")
        if self.size == 1:
            return value
        on_device = hasattr(value, "__cuda_array_interface__")
        mine = np.ascontiguousarray(to_host(value))
        total = np.empty_like(mine)
        self.comm.Reduce(mine, total)
        self.comm.Bcast(total)
        total = total.reshape(np.shape(value))
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
            "'pip install mpi4py mpich', or mpi4py alone where the machine has MPI"
        ) from error
    return MPI


def _private(mpi: Any, comm: Any) -> PrivateComm:
    """Return parki's own communicator of these ranks, made once and kept with theirs.

    It keeps parki's messages apart from the caller's.
    """
    if not _KEY:
        _KEY.append(mpi.Comm.Create_keyval(delete_fn=_free))
    private: PrivateComm | None = comm.Get_attr(_KEY[0])
    if private is None:
        private = PrivateComm(mpi, comm.Dup())
        comm.Set_attr(_KEY[0], private)
        if private.comm.Get_size() > 1:
            _end_together(mpi)
            _PRIVATE.append(private)
    return private


def _free(_comm: Any, _key: int, private: PrivateComm) -> None:
    if private in _PRIVATE:
        _PRIVATE.remove(private)
    private.comm.Free()


_KEY: list[int] = []
_PRIVATE: list[PrivateComm] = []  # of several ranks, in the order in which all ranks made them


def _end_together(mpi: Any) -> None:
    """Let an uncaught exception on one rank end all ranks, and the end of its program, too.

    With MPI alone, a rank that leaves Python with a traceback or by `sys.exit` waits at exit for
    the others, and they wait for its part in an exchange, for ever.
    """
    previous, process = sys.excepthook, os.getpid()
    if getattr(previous, "ends_together", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() != process:  # a child, which is no rank
            previous(kind, error, trace)
            return
        rank = mpi.COMM_WORLD.Get_rank()
        if rank:
            time.sleep(1.0)  # lets the first rank print the error if it raises the same
        previous(kind, error, trace)
        sys.stderr.flush()
        time.sleep(0.3)  # on an abort, launchers drop output they have not read yet
        mpi.COMM_WORLD.Abort(1)

    def end() -> None:
        if os.getpid() != process or mpi.Is_finalized():
            return
        for private in [*_PRIVATE]:
            ended = False
            while not ended:  # others may go on for a while, and hear that this rank does not
                with suppress(ParkiError):
                    private.vote("the end of its program")
                    ended = True

    hook.ends_together = True  # type: ignore[attr-defined]
    sys.excepthook = hook
    atexit.register(end)
