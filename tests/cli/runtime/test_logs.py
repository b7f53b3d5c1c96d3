"""Events on the standard error: the same from our own log and from the standard one."""

import json
import logging
from io import StringIO

import pytest
import structlog

from trimtab.cli.flags.common import LogFlags, LogFormat
from trimtab.cli.runtime import logs


def say_something() -> None:
    structlog.stdlib.get_logger("ours").info("pod held", pod="web-0", reason="budget spent")
    logging.getLogger("theirs").warning("odd", extra={"pod": "web-1"})


def test_events_are_one_json_object_per_line(told: StringIO) -> None:
    logs.set_up(LogFlags(), told)
    say_something()

    ours, theirs = (json.loads(line) for line in told.getvalue().splitlines())
    assert ours.pop("timestamp").endswith("Z")
    assert theirs.pop("timestamp").endswith("Z")
    assert ours == {
        "event": "pod held",
        "level": "info",
        "logger": "ours",
        "pod": "web-0",
        "reason": "budget spent",
    }
    assert theirs == {"event": "odd", "level": "warning", "logger": "theirs", "pod": "web-1"}


def test_events_can_be_read_by_people(told: StringIO) -> None:
    logs.set_up(LogFlags(log_format=LogFormat.CONSOLE), told)
    say_something()

    ours, theirs = told.getvalue().splitlines()
    assert "pod held" in ours
    assert "pod=web-0" in ours
    assert "odd" in theirs
    assert "\x1b" not in told.getvalue()


def test_an_error_that_nobody_expected_stays_on_one_line_of_json(told: StringIO) -> None:
    logs.set_up(LogFlags(), told)
    try:
        int("odd")
    except ValueError:
        structlog.stdlib.get_logger("ours").exception("broken")

    (line,) = told.getvalue().splitlines()
    assert "ValueError: invalid literal" in json.loads(line)["exception"]


@pytest.mark.parametrize(
    ("verbosity", "events"),
    [
        pytest.param(5, ["debug", "info", "warning"], id="everything"),
        pytest.param(4, ["info", "warning"], id="as usual"),
        pytest.param(1, ["info", "warning"], id="little"),
        pytest.param(0, ["warning"], id="only what goes wrong"),
    ],
)
def test_verbosity_says_how_much_is_told(told: StringIO, verbosity: int, events: list[str]) -> None:
    logs.set_up(LogFlags(v=verbosity), told)
    logger = structlog.stdlib.get_logger("ours")
    logger.debug("debug")
    logger.info("info")
    logger.warning("warning")

    assert [json.loads(line)["event"] for line in told.getvalue().splitlines()] == events
