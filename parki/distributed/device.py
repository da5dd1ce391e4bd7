"""Transports for arrays in device memory, and the choice of one.

NCCL moves arrays from device to device if each rank has its own; otherwise they go through pinned
host memory. Device memory is never handed to MPI: a library without GPU support would end the
process, and few libraries say whether they have it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from parki.distributed.team import Team
from parki.distributed.transport import HostTransport, Parcels, Transport, cut
from parki.runtime import ExecutionSpace
from parki.runtime.spaces.cupy import HIGH


def choose_transport(team: Team, space: ExecutionSpace) -> Transport:
    """Return the fastest transport that all ranks have."""
    if not space.on_device:
        return HostTransport(team)
    told = team.allgather((node_and_device(space), bool(_nccl().available)))
    # NCCL refuses ranks that share a device.
    if all(nccl for _, nccl in told) and len({here for here, _ in told}) == team.size:
        return NcclTransport(team)
    return StagedTransport(team)


def node_and_device(space: ExecutionSpace) -> tuple[str, str]:
    """Return the node whose memory this rank uses, and its device if the space is on one."""
    if not space.on_device:
        return socket.gethostname(), ""
    cuda = space.array_module.cuda
    return socket.gethostname(), str(cuda.runtime.deviceGetPCIBusId(cuda.Device().id))


def use_local_gpu(comm: Any = None) -> int:
    """Make this rank's GPU the current device; GPUs are given to a node's ranks round robin.

    Call it before making arrays. If the launcher shows each rank one GPU, the rank takes that one.

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
    number = int(team.place_on_node % cupy.cuda.runtime.getDeviceCount())
    cupy.cuda.Device(number).use()
    return number


class NcclTransport(Transport):
    """NCCL, on the current stream."""

    def __init__(self, team: Team) -> None:
        import cupy

        super().__init__(team, cupy, "NCCL", cupy.empty)
        self.nccl = _nccl()
        # For started exchanges; at high priority, as they need few blocks next to other kernels.
        self.stream = cupy.cuda.Stream(non_blocking=True, priority=HIGH)
        self.communicator = _communicator(team, self.nccl, int(cupy.cuda.Device().id))

    def exchange(self, parcels: Parcels) -> None:
        """Exchange by one group of sends and receives."""
        self._begin(parcels)
        stream, byte = self.xp.cuda.get_current_stream().ptr, self.nccl.NCCL_CHAR
        outgoing = cut(parcels.send, [(count,) for count in parcels.send_counts])
        got = cut(parcels.receive, [(count,) for count in parcels.receive_counts])
        self.nccl.groupStart()
        for other, (out, into) in enumerate(zip(outgoing, got, strict=True)):
            if other == self.team.rank:
                into[...] = out
                continue
            if out.size:
                self.communicator.send(out.data.ptr, out.nbytes, byte, other, stream)
            if into.size:
                self.communicator.recv(into.data.ptr, into.nbytes, byte, other, stream)
        self.nccl.groupEnd()

    def start(self, parcels: Parcels) -> Callable[[], None]:
        """Begin an exchange on a separate stream."""
        cuda = self.xp.cuda
        self.stream.wait_event(cuda.get_current_stream().record())
        with self.stream:
            self.exchange(parcels)
        done = self.stream.record()
        return lambda: cuda.get_current_stream().wait_event(done)


class StagedTransport(Transport):
    """MPI through pinned host memory."""

    def __init__(self, team: Team) -> None:
        import cupy

        super().__init__(team, cupy, "MPI through host memory", cupy.empty)
        self.host = HostTransport(team, _pinned)
        self.sent = self.host.sent

    def exchange(self, parcels: Parcels) -> None:
        """Copy to the host, exchange, and copy back."""
        label, rows, send, send_counts, receive, receive_counts = parcels
        staged = self.host.parcels(label, send_counts, receive_counts, send.dtype, rows=rows)
        if send.size:
            send.get(out=staged.send)
        self.host.exchange(staged)
        if receive.size:
            receive.set(staged.receive)
            self.xp.cuda.get_current_stream().synchronize()  # the host's buffer is reused


def _nccl() -> Any:
    """Return CuPy's NCCL; since CuPy 14 it has to be imported before `cupy.cuda` has it."""
    from cupy.cuda import nccl

    return nccl


def _pinned(size: int, dtype: DTypeLike) -> Any:
    """Return an array of bytes in page-locked memory, which devices copy faster."""
    import cupy

    return np.frombuffer(cupy.cuda.alloc_pinned_memory(max(size, 1)), dtype, size)


def _communicator(team: Team, nccl: Any, device: int) -> Any:
    """Return the NCCL communicator of these ranks and devices.

    Making one is slow, so it is made once and kept with the MPI communicator.
    """
    if not _KEY:
        _KEY.append(team.mpi.Comm.Create_keyval())
    device_and_nccl = team.comm.Get_attr(_KEY[0])
    if not all(team.allgather(device_and_nccl is not None and device_and_nccl[0] == device)):
        name = team.broadcast(nccl.get_unique_id() if team.rank == 0 else None)
        device_and_nccl = (device, nccl.NcclCommunicator(team.size, name, team.rank))
        team.comm.Set_attr(_KEY[0], device_and_nccl)
    return device_and_nccl[1]


_KEY: list[int] = []
