"""An API server on which each request fails; fakes answer those that their tests make."""

from collections.abc import AsyncGenerator, Mapping


class SilentServer:
    """A server without any answer."""

    async def fetch(self, path: str, parameters: Mapping[str, str] | None = None) -> bytes:
        raise AssertionError(f"GET {path} {parameters}")

    async def stream(self, path: str, parameters: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        raise AssertionError(f"watch {path} {parameters}")

    async def post(self, path: str, body: bytes) -> bytes:
        raise AssertionError(f"POST {path} {body!r}")
