"""Tables in Markdown, in which text from the cluster stays in its cell."""

from collections.abc import Collection, Sequence

from trimtab.cli.output.columns import disarm


def format_table(rows: Sequence[Sequence[str]], *, numbers: Collection[int] = ()) -> str:
    """Format a line for each row; the first row holds the titles, and numbers align right."""
    titles, *others = rows
    ruler = ["---:" if place in numbers else "---" for place in range(len(titles))]
    lines = ([_escape(cell) for cell in row] for row in others)
    return "".join(f"| {' | '.join(line)} |\n" for line in (titles, ruler, *lines))


def _escape(cell: str) -> str:
    return disarm(cell).replace("|", "\\|")
