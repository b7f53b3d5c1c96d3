"""Logs: events with key-values, one per line on the standard error.

Records of libraries and of our own modules in the standard `logging` have the same format.
"""

import logging
import sys
from typing import Final, TextIO

import structlog
from structlog.typing import Processor

from trimtab.cli.flags.common import LogFlags, LogFormat

_EVERYTHING: Final = 5
_SHARED: Final[tuple[Processor, ...]] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def set_up(flags: LogFlags, output: TextIO | None = None) -> None:
    """Configure the format and level of all logs, as the flags say."""
    output = output or sys.stderr
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_SHARED, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(flags.log_format, has_colors=output.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_level(flags.v))


def _renderers(log_format: LogFormat, *, has_colors: bool) -> list[Processor]:
    match log_format:
        case LogFormat.JSON:
            return [
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(default=str),
            ]
        case LogFormat.CONSOLE:
            plain = structlog.dev.plain_traceback
            return [structlog.dev.ConsoleRenderer(colors=has_colors, exception_formatter=plain)]


def _level(verbosity: int) -> int:
    if verbosity >= _EVERYTHING:
        return logging.DEBUG
    return logging.INFO if verbosity >= 1 else logging.WARNING
