"""Logs that a test sets up for itself."""

import logging
from collections.abc import Iterator
from io import StringIO

import pytest
import structlog


@pytest.fixture
def told() -> Iterator[StringIO]:
    """Where a test may let logs go; afterwards they go where they went before."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
