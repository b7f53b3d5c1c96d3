"""The table of a chart's values, made of the comments in its `values.yaml`.

A comment that begins with `# --` is about the key below it, and about all that is under that key.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import yaml

_COMMENT: Final = re.compile(r" *# -- (?P<about>.+)")
_KEY: Final = re.compile(r"(?P<indent> *)(?P<name>[A-Za-z]\w*):")
_INDENT: Final = 2
_BEGIN: Final = "<!-- values: written by `make manifests` from values.yaml -->\n"
_END: Final = "<!-- end of values -->\n"


@dataclass(frozen=True, slots=True)
class Value:
    """A key, what it is by default, and what it is for."""

    key: str
    default: object
    about: str


def list_values(text: str) -> Iterator[Value]:
    """All values that a comment is about, in the order in which they stand there."""
    whole = yaml.safe_load(text)
    path: list[str] = []
    about = ""
    for line in text.splitlines():
        if comment := _COMMENT.fullmatch(line):
            about = comment["about"]
        elif key := _KEY.match(line):
            path = [*path[: len(key["indent"]) // _INDENT], key["name"]]
            if about:
                yield Value(".".join(path), _find(whole, path), about)
            about = ""


def list_silent(text: str) -> list[str]:
    """The keys that no comment is about, neither about themselves nor about any above or below."""
    told = [value.key for value in list_values(text)]
    return [key for key in _leaves(yaml.safe_load(text)) if not _is_told(key, told)]


def format_table(values: Iterable[Value]) -> str:
    """The values as a table of Markdown."""
    rows = [f"| `{each.key}` | {_format(each.default)} | {each.about} |\n" for each in values]
    return "".join(["| Value | Default | |\n|---|---|---|\n", *rows])


def replace_table(page: str, table: str) -> str:
    """The page with this table between its marks."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{table}\n{_END}{after}"


def _find(whole: object, path: list[str]) -> object:
    for name in path:
        assert isinstance(whole, dict)
        whole = whole[name]
    return whole


def _format(default: object) -> str:
    return "" if default in (None, "") else f"`{json.dumps(default)}`"


def _leaves(value: object, path: str = "") -> Iterator[str]:
    if not isinstance(value, dict) or not value:
        yield path
        return
    for name, inner in value.items():
        yield from _leaves(inner, f"{path}.{name}" if path else name)


def _is_told(key: str, told: Iterable[str]) -> bool:
    return any(key == each or key.startswith(f"{each}.") for each in told)
