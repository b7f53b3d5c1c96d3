"""Several processes on one port: each has its own view, the first collects the counts.

Workers are forked before anything runs, so that they share imported modules. All processes accept
connections from one socket: an idle one takes the next. A link from each worker to the first
process carries its counts. When the link closes, the worker ends. If a worker breaks, the first
process ends with an error, all workers end with it, and the kubelet restarts the container.
"""

import asyncio
import math
import os
import signal
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from trimtab.admission.reports import AdmissionCounts
from trimtab.cli.errors import FailedError, UsageError
from trimtab.cluster import errors

_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
_LENGTH_BYTES: Final = 4
_MAX_WORKERS: Final = 64

_DECODER: Final = msgspec.msgpack.Decoder(AdmissionCounts)


class WorkerError(Exception):
    """A worker has ended unexpectedly."""


@dataclass(frozen=True, slots=True)
class Link:
    """The connection of a worker to the first process."""

    end: socket.socket

    async def report(self, tally: AdmissionCounts, interval: timedelta) -> None:
        """Send the counts at every interval; return when the first process closes the link."""
        reader, writer = await asyncio.open_connection(sock=self.end)
        with suppress(OSError):
            while not reader.at_eof():
                body = msgspec.msgpack.encode(tally)
                writer.write(len(body).to_bytes(_LENGTH_BYTES) + body)
                await writer.drain()
                # The first process sends nothing, so a read ends only when the link closes.
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval.total_seconds()):
                        await reader.read()
        writer.close()


@dataclass(slots=True)
class _Member:
    process: int
    end: socket.socket
    tally: AdmissionCounts = field(default_factory=AdmissionCounts)
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)


class WorkerProcesses:
    """The worker processes, in the first process."""

    def __init__(self, members: Sequence[tuple[int, socket.socket]] = ()) -> None:
        self._members = [_Member(process, end) for process, end in members]
        self._is_ending = False

    @property
    def tallies(self) -> Iterable[AdmissionCounts]:
        """The last counts of each worker."""
        return [member.tally for member in self._members]

    async def listen(self) -> None:
        """Receive the counts of the workers; a WorkerError as soon as one of them is gone."""
        async with asyncio.TaskGroup() as group:
            for member in self._members:
                group.create_task(self._listen_to(member))

    async def end(self, patience: timedelta) -> None:
        """Send SIGTERM to all workers, and wait until they have ended, at most for `patience`."""
        self._is_ending = True
        for member in self._members:
            with suppress(ProcessLookupError):
                os.kill(member.process, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience.total_seconds()):
                for member in self._members:
                    await member.has_ended.wait()

    async def _listen_to(self, member: _Member) -> None:
        reader, writer = await asyncio.open_connection(sock=member.end)
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
                member.tally = _DECODER.decode(await reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError) as error:
            # The call blocks, but not for long: the link closed because the worker ended.
            _, status = await asyncio.to_thread(os.waitpid, member.process, 0)
            member.has_ended.set()
            if not self._is_ending:
                code = os.waitstatus_to_exitcode(status)
                raise WorkerError(f"a worker ended with code {code}") from error
        finally:
            writer.close()


def fork(count: int) -> WorkerProcesses | Link:
    """Fork workers: return a `WorkerProcesses` in the first process, a `Link` in each worker."""
    members: list[tuple[int, socket.socket]] = []
    for _ in range(count):
        ours, theirs = socket.socketpair()
        process = os.fork()
        if process == 0:
            ours.close()
            for _, other in members:
                # A copy in this worker would keep the link open after the first process ends.
                other.close()
            return Link(theirs)
        # A copy here would keep the link open after the worker has ended.
        theirs.close()
        members.append((process, ours))
    return WorkerProcesses(members)


def count_workers(asked: int) -> int:
    """Return the number of processes, at most 64; 0 means one per usable core."""
    return min(asked or usable_cores(), _MAX_WORKERS)


def usable_cores(quota: Path = _QUOTA) -> int:
    """Return the number of cores this process may use, by its affinity and its cgroup."""
    cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        # Without a quota the first word is `max`; cgroup v1 has no such file.
        granted, period = quota.read_text(encoding="ascii").split()
        cores = min(cores, max(1, math.ceil(int(granted) / int(period))))
    return cores


_PORTS = range(1 << 16)


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket to the address, or to all if it is empty; connections queue from now on."""
    if port not in _PORTS:
        raise UsageError(f"--port: {port} is not a port")
    try:
        if not host and socket.has_dualstack_ipv6():
            with suppress(OSError):
                # The kernel may support IPv6 while no address is configured.
                return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family)
    except (OSError, UnicodeError, TypeError) as error:
        raise blame(f"{host}:{port}", error) from error


def blame(address: str, error: Exception) -> FailedError:
    """Return the error of an address on which this process cannot listen, in words for people."""
    # Python itself refuses some names; errors of the resolver have negative numbers.
    is_of_name = not isinstance(error, OSError) or (error.errno or 0) < 0
    problem = "the name of the host cannot be found" if is_of_name else errors.describe(error)
    return FailedError(f"cannot listen on {address}: {problem}")
