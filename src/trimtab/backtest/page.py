"""The frame of a page: one file with its style in it, which needs nothing from elsewhere."""

from html import escape
from importlib import resources


def to_page(title: str, body: str, more_style: str = "") -> str:
    """The whole page around a body."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_style()}{more_style}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _style() -> str:
    return resources.files("trimtab.backtest").joinpath("page.css").read_text(encoding="utf-8")
