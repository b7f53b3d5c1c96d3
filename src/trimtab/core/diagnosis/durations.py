"""Durations, formatted for people."""

from datetime import timedelta


def brief(span: timedelta) -> str:
    """Format a duration with its two largest units, as in `2d3h`."""
    seconds = max(int(span.total_seconds()), 0)
    units = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count}{name}" if count else "")
    return "".join(parts[:2]) or "0s"
