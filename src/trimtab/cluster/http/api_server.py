"""Interface of the API server for the modules that read it; the client implements it."""

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol


class ApiServer(Protocol):
    """Requests by path."""

    async def fetch(self, path: str, parameters: Mapping[str, str] | None = None) -> bytes:
        """Return the body of a GET."""
        ...

    async def stream(self, path: str, parameters: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Open a stream of lines, which lasts until the server ends it."""
        ...

    async def post(self, path: str, body: bytes) -> bytes:
        """Return the answer to a POST."""
        ...
