"""A store of one object that is polled, for a role that may only read this object.

A watch of a single cluster-wide object takes a right for the whole cluster. To fetch a namespace,
however, a role in that very namespace is enough.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final, Generic, NoReturn, TypeVar

from trimtab.api.wire import watch_events
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.errors import ClusterError, NotFoundError
from trimtab.cluster.http.api_server import ApiServer
from trimtab.cluster.ports import Clock
from trimtab.cluster.watch.store import Writer

RecordT = TypeVar("RecordT")

LOOK_AGAIN: Final = timedelta(seconds=5)


class Poll(Generic[RecordT]):
    """Keeps a store of one object up to date."""

    def __init__(
        self,
        server: ApiServer,
        path: str,
        decode: Callable[[bytes], RecordT],
        writer: Writer[RecordT],
        *,
        clock: Clock,
    ) -> None:
        self._server = server
        self._decode = decode
        self._writer = writer
        self._clock = clock
        self.path = path
        self.problem: Exception | None = None
        """Error of the last read; None once the server has answered again."""

    async def run(self) -> NoReturn:
        """Read the object at intervals until cancelled."""
        while True:
            try:
                await self._look()
            except (ClusterError, DecodeError) as error:
                self.problem = error
            else:
                self.problem = None
            await self._clock.sleep(LOOK_AGAIN)

    async def _look(self) -> None:
        try:
            data = await self._server.fetch(self.path)
        except NotFoundError:
            self._writer.replace(())
        else:
            self._writer.replace([watch_events.decode_entry(data, self._decode)])
