"""Capabilities of the API server, read from its discovery; an upgrade may add some."""

from datetime import datetime, timedelta
from typing import Final

from trimtab.api.kinds import discovery
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.http.api_server import ApiServer
from trimtab.cluster.ports import Clock

_CORE: Final = "/api/v1"
_RESIZE: Final = "pods/resize"
_ANSWER_LIFE: Final = timedelta(minutes=10)
_FAILURE_LIFE: Final = timedelta(seconds=30)


class Abilities:
    """Capabilities, read again at intervals; before the first answer, those of a current server."""

    def __init__(self, server: ApiServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._can_resize = True
        self._ask_at: datetime | None = None

    async def can_resize(self) -> bool:
        """Return True if pods can be resized in place."""
        now = self._clock.now()
        if self._ask_at is None or now >= self._ask_at:
            try:
                names = discovery.decode_resource_names(await self._server.fetch(_CORE))
            except (ClusterError, DecodeError):
                self._ask_at = now + _FAILURE_LIFE
            else:
                self._can_resize, self._ask_at = _RESIZE in names, now + _ANSWER_LIFE
        return self._can_resize
