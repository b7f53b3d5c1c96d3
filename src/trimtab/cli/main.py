"""The `trimtab` command: finds the subcommand, and turns every mistake into one line.

Exit codes: 0 for success, 1 for failure (`validate` found errors, no cluster answers), 2 for an
invalid command line.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from trimtab.cli import app
from trimtab.cli.errors import FailedError, UsageError
from trimtab.cli.output import columns, standard_output

_FAILED: Final = 1
_MISUSED: Final = 2
_INTERRUPTED: Final = 130
"""128 plus the number of SIGINT, as in shells."""
_COMPLETE: Final = "__complete"
"""The hidden command by which a shell asks for completions."""

_FOR_LIBRARIES: Final = {
    # Our arrays are too small for threads to be worth their memory.
    "OPENBLAS_NUM_THREADS": "1",
    # The original has no `_created` series, and they would be a third of all.
    "PROMETHEUS_DISABLE_CREATED_SERIES": "true",
}
"""Environment variables that libraries read when they are imported."""


class _Completion(Protocol):
    """The part of `trimtab.cli.completion` that is called here."""

    def print_completions(self, words: Sequence[str]) -> int: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return its exit code."""
    for name, value in _FOR_LIBRARIES.items():
        os.environ.setdefault(name, value)
    standard_output.replace_closed()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(given)
        sys.stdout.flush()
    except UsageError as error:
        standard_output.complain(f"{_flatten(error).rstrip('.')}; see {app.help_for(given)}")
        return _MISUSED
    except FailedError as error:
        standard_output.complain(_flatten(error))
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (BrokenPipeError, SystemExit) as error:
        # The reader of our output has closed it; rich turns that into SystemExit.
        if not any(isinstance(each, BrokenPipeError) for each in (error, error.__context__)):
            raise
        standard_output.discard()
        return 0
    except OSError as error:
        if not standard_output.is_unwritable(error):
            raise
        standard_output.discard()
        standard_output.complain(f"cannot write: {error.strerror or error}")
        return _FAILED
    return code if isinstance(code, int) else 0


def _run(given: Sequence[str]) -> object:
    if given[:1] == [_COMPLETE]:
        return cast("_Completion", import_module("trimtab.cli.completion")).print_completions(
            given[1:]
        )
    if given and given[0] in app.COMPONENTS:
        _import_logs_alone()
    return app.run(given)


def _flatten(error: Exception) -> str:
    return columns.disarm(" ".join(str(error).split()))


def _import_logs_alone() -> None:
    """Import structlog without rich, which structlog imports where it is installed.

    Rich formats tracebacks in colour, which no component shows. It costs 90 ms and 4 MiB.
    """
    if "rich" in sys.modules:
        return
    cast("dict[str, object]", sys.modules)["rich"] = None
    try:
        import_module("structlog")
    finally:
        del sys.modules["rich"]
