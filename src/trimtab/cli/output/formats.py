"""Formats of output, and the flag that chooses one; each command states which it offers."""

from enum import StrEnum
from typing import Final

from cyclopts import Parameter


class Format(StrEnum):
    """Formats that commands write."""

    TABLE = "table"
    WIDE = "wide"
    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    MARKDOWN = "markdown"
    HTML = "html"


OUTPUT: Final = Parameter(name=["--output", "-o"])
"""Names of the flag; its type is a `Literal` of the formats that the command offers."""
