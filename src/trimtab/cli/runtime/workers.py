"""More processes than one on one port: each has a view of its own, the first one keeps the books.

They are forked before anything runs, so that they share what is imported, and accept connections
from one socket: whoever is free takes the next. A link leads from each to the first process: counts
come along it, and its end is the end of either side. A worker that breaks ends all of them, and
whoever started the process starts it anew.
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
    """A worker has ended that nobody told to."""


@dataclass(frozen=True, slots=True)
class Link:
    """A worker's way to the first process."""

    end: socket.socket

    async def report(self, tally: AdmissionCounts, interval: timedelta) -> None:
        """Tell the counts again and again; return as soon as nobody listens any more."""
        reader, writer = await asyncio.open_connection(sock=self.end)
        with suppress(OSError):
            while not reader.at_eof():
                body = msgspec.msgpack.encode(tally)
                writer.write(len(body).to_bytes(_LENGTH_BYTES) + body)
                await writer.drain()
                # Nothing ever comes from there, but the end.
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
    """The workers, as the first process sees them."""

    def __init__(self, members: Sequence[tuple[int, socket.socket]] = ()) -> None:
        self._members = [_Member(process, end) for process, end in members]
        self._is_ending = False

    @property
    def tallies(self) -> Iterable[AdmissionCounts]:
        """What each worker has told last."""
        return [member.tally for member in self._members]

    async def listen(self) -> None:
        """Hear what the workers tell; a WorkerError as soon as one of them is gone."""
        async with asyncio.TaskGroup() as group:
            for member in self._members:
                group.create_task(self._listen_to(member))

    async def end(self, patience: timedelta) -> None:
        """Tell all workers to end, and wait until they have."""
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
            _, status = await asyncio.to_thread(os.waitpid, member.process, 0)
            member.has_ended.set()
            if not self._is_ending:
                code = os.waitstatus_to_exitcode(status)
                raise WorkerError(f"a worker ended with code {code}") from error
        finally:
            writer.close()


def hire(count: int) -> WorkerProcesses | Link:
    """Fork so many workers: the first process gets a crew, and each worker its link."""
    members: list[tuple[int, socket.socket]] = []
    for _ in range(count):
        ours, theirs = socket.socketpair()
        process = os.fork()
        if process == 0:
            ours.close()
            for _, other in members:
                # Held by a worker, too, a link would not end with the first process.
                other.close()
            return Link(theirs)
        theirs.close()
        members.append((process, ours))
    return WorkerProcesses(members)


def count_workers(asked: int) -> int:
    """How many processes are asked for in all; 0 is one for each core that we may use."""
    return min(asked or usable_cores(), _MAX_WORKERS)


def usable_cores(quota: Path = _QUOTA) -> int:
    """How many cores this process may use, by its affinity and by its cgroup."""
    cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        granted, period = quota.read_text(encoding="ascii").split()
        cores = min(cores, max(1, math.ceil(int(granted) / int(period))))
    return cores


_PORTS = range(1 << 16)


def bind(host: str, port: int) -> socket.socket:
    """A socket of that address and port, of all addresses if there is none; nobody listens yet."""
    if port not in _PORTS:
        raise UsageError(f"--port: {port} is not a port")
    try:
        if not host and socket.has_dualstack_ipv6():
            with suppress(OSError):
                # A machine may know IPv6, and have none.
                return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family)
    except (OSError, UnicodeError, TypeError) as error:
        raise blame(f"{host}:{port}", error) from error


def blame(address: str, error: Exception) -> FailedError:
    """Return the error of an address on which this process cannot listen, in words for people."""
    # Python itself refuses some names; what the resolver says has numbers below 0.
    is_of_name = not isinstance(error, OSError) or (error.errno or 0) < 0
    problem = "the name of the host cannot be found" if is_of_name else errors.tell(error)
    return FailedError(f"cannot listen on {address}: {problem}")
