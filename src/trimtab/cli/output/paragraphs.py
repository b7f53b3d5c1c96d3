"""Paragraphs for people, wrapped at the width of the screen where words allow it."""

import textwrap


def wrap(lead: str, text: str, width: int, *, hang: int = 0) -> list[str]:
    """Wrap text after its lead, with later lines `hang` columns right of the first one's text."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=lead,
        subsequent_indent=" " * (len(lead) + hang),
        # Names and commands are copied, so they are never cut.
        break_long_words=False,
        break_on_hyphens=False,
    )
