"""Limits of the webhook server: connections, memory, waiting requests and times."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

MAX_BODY_BYTES: Final = 5 * 1024 * 1024
"""The original's limit; a pod is at most 1.5 MB, and a review of an update holds two."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of one server."""

    queue: int = 512
    """Maximum number of waiting requests; further ones are allowed without a review."""
    large_queue: int = 32
    """Maximum number of waiting large requests."""
    queued_bytes: int = 32 * 1024 * 1024
    """Maximum size of all waiting requests; further ones are allowed without a review."""
    connections: int = 512
    """Maximum number of connections; beyond it, the one silent or slow for longest is ended."""
    heavy_connections: int = 128
    """Maximum number of connections with large TLS buffers; the one awaited longest goes."""
    handshakes: int = 128
    """Maximum number of concurrent handshakes; beyond it, the oldest is ended."""
    buffered_bytes: int = 32 * 1024 * 1024
    """Maximum size of all unfinished requests; beyond it, the oldest is refused."""
    put_off_bytes: int = 8 * 1024 * 1024
    """Size of the deferred requests, 64 KiB each at least; namespaces share it."""
    patience: timedelta = timedelta(seconds=1)
    """Maximum time for which a request is deferred."""
    request_time: timedelta = timedelta(seconds=10)
    """Maximum time for a request to arrive, and for a handshake."""
    idle_time: timedelta = timedelta(minutes=2)
    """Maximum silence of a connection; an API server ends it after 90 s."""
    sweep_interval: timedelta = timedelta(seconds=1)
    """Time between two checks of these times."""


USUAL_LIMITS: Final = ServerLimits()
