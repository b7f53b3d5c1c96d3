"""Lines out of chunks of bytes as they come from the network, none longer than a bound."""

from collections.abc import AsyncIterator


class LineError(ValueError):
    """A line that does not end within its bound."""


async def split_lines(chunks: AsyncIterator[bytes], *, max_bytes: int) -> AsyncIterator[bytes]:
    """The lines without their ends; empty ones, and a last one that was cut off, are left out."""
    begun: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            line = b"".join((*begun, piece))
            begun, size = [], 0
            if len(line) > max_bytes:
                raise LineError(f"a line of more than {max_bytes} bytes")
            if line:
                yield line
        begun.append(rest)
        size += len(rest)
        if size > max_bytes:
            raise LineError(f"a line of more than {max_bytes} bytes")
