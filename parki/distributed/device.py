"""Transports for arrays in device memory, and the choice of one.

NCCL moves them from device to device, where each rank has one of its own; elsewhere they go through
pinned host memory. Device memory is never handed to MPI: one that is not aware of GPUs ends the
process, and few say whether they are.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parki.distributed.team import Team
from parki.distributed.transport import HostTransport, Transport
from parki.runtime import ExecutionSpace
from parki.runtime.spaces.cupy import HIGH


def choose_transport(team: Team, space: ExecutionSpace) -> Transport:
    """Return the fastest way that all ranks have."""
    if not space.on_device:
        return HostTransport(team)
    told = team.all((place(space), bool(_nccl().available)))
    # NCCL refuses ranks that share a device.
    if all(nccl for _, nccl in told) and len({here for here, _ in told}) == team.size:
        return NcclTransport(team)
    return StagedTransport(team)


def place(space: ExecutionSpace) -> tuple[str, str]:
    """Return the node, and the device if the space is on one, whose memory this rank takes."""
    if not space.on_device:
        return socket.gethostname(), ""
    cuda = space.array_module.cuda
    return socket.gethostname(), str(cuda.runtime.deviceGetPCIBusId(cuda.Device().id))


def use_local_gpu(comm: Any = None) -> int:
    """Make this rank's GPU the current device: the ranks of a node take turns.

    Call it before making arrays. Where the launcher shows each rank one GPU, that is taken.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        Default: ``COMM_WORLD``.

    Returns
    -------
    int
        Number of the device.
    """
    import cupy

    team = Team(comm)
    node = team.comm.Split_type(team.mpi.COMM_TYPE_SHARED)
    number = int(node.Get_rank() % cupy.cuda.runtime.getDeviceCount())
    node.Free()
    cupy.cuda.Device(number).use()
    return number


class NcclTransport(Transport):
    """NCCL, on the current stream."""

    def __init__(self, team: Team) -> None:
        import cupy

        super().__init__(team, cupy, "NCCL", cupy.empty)
        self.nccl = _nccl()
        # Exchanges that are started; high priority, as they need few blocks beside other kernels'.
        self.stream = cupy.cuda.Stream(non_blocking=True, priority=HIGH)
        self.communicator = _communicator(team, self.nccl, int(cupy.cuda.Device().id))

    def exchange(
        self,
        label: str,
        send: Any,
        send_counts: Sequence[int],
        receive: Any,
        receive_counts: Sequence[int],
    ) -> None:
        """Exchange by sends and receives of one group."""
        self._begin(label, send, send_counts)
        rank, item = self.team.rank, send.itemsize
        stream, byte = self.xp.cuda.get_current_stream().ptr, self.nccl.NCCL_CHAR
        self.nccl.groupStart()
        given = got = 0
        for other, (out, into) in enumerate(zip(send_counts, receive_counts, strict=True)):
            if other == rank:
                receive[got : got + into] = send[given : given + out]
            else:
                if out:
                    address = send.data.ptr + given * item
                    self.communicator.send(address, out * item, byte, other, stream)
                if into:
                    address = receive.data.ptr + got * item
                    self.communicator.recv(address, into * item, byte, other, stream)
            given += out
            got += into
        self.nccl.groupEnd()

    def start(
        self,
        label: str,
        send: Any,
        send_counts: Sequence[int],
        receive: Any,
        receive_counts: Sequence[int],
    ) -> Callable[[], None]:
        """Begin an exchange on a stream of its own."""
        cuda = self.xp.cuda
        self.stream.wait_event(cuda.get_current_stream().record())
        with self.stream:
            self.exchange(label, send, send_counts, receive, receive_counts)
        done = self.stream.record()
        return lambda: cuda.get_current_stream().wait_event(done)


class StagedTransport(Transport):
    """MPI by way of pinned host memory."""

    def __init__(self, team: Team) -> None:
        import cupy

        super().__init__(team, cupy, "MPI through host memory", cupy.empty)
        self.host = HostTransport(team, _pinned)
        self.sent = self.host.sent

    def exchange(
        self,
        label: str,
        send: Any,
        send_counts: Sequence[int],
        receive: Any,
        receive_counts: Sequence[int],
    ) -> None:
        """Copy to the host, exchange, and copy back."""
        given, got = self.host.buffers(send.size, receive.size, send.dtype)
        if send.size:
            send.get(out=given)
        self.host.exchange(label, given, send_counts, got, receive_counts)
        if receive.size:
            receive.set(got)
            self.xp.cuda.get_current_stream().synchronize()  # the host's buffer is used again


def _nccl() -> Any:
    """Return CuPy's NCCL; since CuPy 14 no attribute of `cupy.cuda` before it is imported."""
    from cupy.cuda import nccl

    return nccl


def _pinned(size: int, dtype: Any) -> Any:
    """Return an array of bytes in page-locked memory, to and from which devices copy faster."""
    import cupy

    return np.frombuffer(cupy.cuda.alloc_pinned_memory(max(size, 1)), dtype, size)


def _communicator(team: Team, nccl: Any, device: int) -> Any:
    """Return the NCCL communicator of these ranks and devices, made once: that takes a while.

    It is kept with the MPI communicator.
    """
    if not _KEY:
        _KEY.append(team.mpi.Comm.Create_keyval())
    kept = team.comm.Get_attr(_KEY[0])
    if not all(team.all(kept is not None and kept[0] == device)):
        name = team.broadcast(nccl.get_unique_id() if team.rank == 0 else None)
        kept = (device, nccl.NcclCommunicator(team.size, name, team.rank))
        team.comm.Set_attr(_KEY[0], kept)
    return kept[1]


_KEY: list[int] = []
