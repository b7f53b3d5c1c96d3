"""The `trimtab` command: finds the subcommand, and turns every mistake into one line.

Exit codes: 0 for yes, 1 for no (`validate` found errors, no cluster answers), 2 for a call that
makes no sense. Of a component whose command line is plain the parser of command lines is not even
imported: starting must stay quick, and components small.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from trimtab.cli.columns import disarm
from trimtab.cli.component_commands import COMPONENTS
from trimtab.cli.failures import FailedError
from trimtab.cli.usage import UsageError

_FAILED: Final = 1
_MISUSED: Final = 2
_INTERRUPTED: Final = 130
"""As shells have it."""
_COMPLETE: Final = "__complete"
"""The word by which a shell asks what may come next."""

_FOR_LIBRARIES: Final = {
    # Our arrays are too small for threads to be worth their memory.
    "OPENBLAS_NUM_THREADS": "1",
    # The original has no `_created` series, and they would be a third of all.
    "PROMETHEUS_DISABLE_CREATED_SERIES": "true",
}
"""What libraries read from the environment when they are imported."""


class _Completion(Protocol):
    """What is needed of `trimtab.cli.completion`."""

    def tell(self, words: Sequence[str]) -> int: ...


class _Commands(Protocol):
    """What is needed of `trimtab.cli.commands`."""

    def run(self, arguments: Sequence[str]) -> object: ...

    def help_for(self, arguments: Sequence[str]) -> str: ...


class _PlainLines(Protocol):
    """What is needed of `trimtab.cli.plain_lines`."""

    def read_line(
        self, usual: Mapping[str, object], words: Sequence[str], environment: Mapping[str, str]
    ) -> dict[str, object] | None: ...


class _Component(Protocol):
    """What is needed of a component's command."""

    __kwdefaults__: dict[str, object]

    def __call__(self, **flags: object) -> int: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of the command that the arguments ask for."""
    for name, value in _FOR_LIBRARIES.items():
        os.environ.setdefault(name, value)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == [_COMPLETE]:
        return cast("_Completion", import_module("trimtab.cli.completion")).tell(given[1:])
    try:
        code = _run(given)
        sys.stdout.flush()
    except UsageError as error:
        sys.stderr.write(f"trimtab: {_flatten(error).rstrip('.')}; see {_help_for(given)}\n")
        return _MISUSED
    except FailedError as error:
        sys.stderr.write(f"trimtab: {_flatten(error)}\n")
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing must be flushed to it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code if isinstance(code, int) else 0


def _run(given: Sequence[str]) -> object:
    """What the command answers that is asked for."""
    if given and given[0] in COMPONENTS:
        _import_logs_alone()
        module, _, name = COMPONENTS[given[0]].partition(".")
        component = cast("_Component", getattr(import_module(f"trimtab.cli.{module}"), name))
        plain_lines = cast("_PlainLines", import_module("trimtab.cli.plain_lines"))
        flags = plain_lines.read_line(component.__kwdefaults__, given[1:], os.environ)
        if flags is not None:
            return component(**flags)
    return _commands().run(given)


def _commands() -> _Commands:
    return cast("_Commands", import_module("trimtab.cli.commands"))


def _flatten(error: Exception) -> str:
    return disarm(" ".join(str(error).split()))


def _help_for(given: Sequence[str]) -> str:
    """Where the command that was meant explains itself."""
    if given and given[0] in COMPONENTS:
        return f"trimtab {given[0]} --help"
    return _commands().help_for(given)


def _import_logs_alone() -> None:
    """Import structlog without rich, which it takes where it is installed.

    That is for tracebacks in colours, which no component shows: 90 ms and 4 MiB for nothing.
    """
    if "rich" in sys.modules:
        return
    cast("dict[str, object]", sys.modules)["rich"] = None
    try:
        import_module("structlog")
    finally:
        del sys.modules["rich"]
