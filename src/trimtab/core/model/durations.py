"""Spans of time as people say them."""

from datetime import timedelta


def brief(span: timedelta) -> str:
    """A span as people say it: its two largest units."""
    seconds = max(int(span.total_seconds()), 0)
    units = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count}{name}" if count else "")
    return "".join(parts[:2]) or "0s"
