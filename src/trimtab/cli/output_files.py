"""Where commands write their answers: to the terminal, or to the file that somebody named."""

import sys
from pathlib import Path

from trimtab.cli.usage import UsageError


def write_out(text: str, file: Path | None) -> None:
    """Write the text to the file, or to standard output if there is none."""
    if file is None:
        sys.stdout.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from error
