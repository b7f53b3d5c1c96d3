"""What a command line means, and what is wrong with it."""

import json
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest

from trimtab.cli.errors import UsageError
from trimtab.cli.flags import start
from trimtab.cli.flags.common import CommonFlags, KlogFlags, LogFlags
from trimtab.cli.flags.recommender import HistoryFlags, LoopFlags, RecommenderFlags
from trimtab.cli.flags.start import list_changed, list_unknown, make_settings
from trimtab.cli.flags.updater import IdleUpdaterFlags, UpdaterFlags
from trimtab.cli.runtime import logs
from trimtab.recommender.settings import RecommenderSettings

KNOWN = ("memory_saver", "recommender_interval")


@pytest.mark.parametrize(
    ("unused", "warnings"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(["--nope=1"], ["flag --nope is unknown and is ignored"], id="with its value"),
        pytest.param(
            ["--nope", "1", "--no"],
            ["flag --nope is unknown and is ignored", "flag --no is unknown and is ignored"],
            id="with its value behind it",
        ),
        pytest.param(
            ["--memory-safer"],
            ["flag --memory-safer is unknown and is ignored; did you mean --memory-saver?"],
            id="a slip of the finger",
        ),
    ],
)
def test_an_unknown_flag_is_a_warning(unused: list[str], warnings: list[str]) -> None:
    assert list_unknown(unused, KNOWN, is_strict=False) == warnings


def test_an_unknown_flag_is_refused_where_flags_are_to_be_known() -> None:
    with pytest.raises(UsageError, match=r"--memory-safer is unknown; did you mean --memory-saver"):
        list_unknown(["--memory-safer"], KNOWN, is_strict=True)


def test_a_long_name_with_one_dash_is_refused_as_by_the_original() -> None:
    with pytest.raises(UsageError, match=r"-memory-saver is unknown; did you mean --memory-saver"):
        list_unknown(["-memory-saver"], KNOWN, is_strict=False)


@pytest.mark.parametrize("unused", [["go"], ["--nope=1", "go"], ["--nope", "1", "go"]])
def test_an_argument_that_belongs_to_no_flag_is_refused(unused: list[str]) -> None:
    with pytest.raises(UsageError, match='"go"'):
        list_unknown(unused, KNOWN, is_strict=False)


def test_only_flags_that_differ_from_their_defaults_are_listed() -> None:
    loop = LoopFlags(recommender_interval=timedelta(seconds=5))
    common = replace(CommonFlags(), logs=LogFlags(v=2))
    changed = list_changed(common, RecommenderFlags(loop=loop))

    assert changed == {"v": 2, "recommender_interval": timedelta(seconds=5)}


def test_a_setting_that_makes_no_sense_is_told_by_the_name_of_its_flag() -> None:
    changed = {"recommender_interval": timedelta()}

    with pytest.raises(UsageError, match=r"^--recommender-interval: '0s' is not above zero"):
        make_settings(lambda: RecommenderSettings(interval=timedelta()), changed)


def test_a_secret_is_among_the_changed_flags_but_is_never_written(told: StringIO) -> None:
    logs.set_up(LogFlags(), told)
    flags = RecommenderFlags(history=HistoryFlags(password="hunter2"))
    start.log_start("recommender", CommonFlags(), flags, [])

    assert json.loads(told.getvalue())["flags"] == {"password": "(hidden)"}


def test_flags_without_effect_are_told_once_and_only_if_they_are_set(told: StringIO) -> None:
    logs.set_up(LogFlags(), told)
    klog = KlogFlags(stderrthreshold="error", log_dir="/var/log")
    start.log_start("x", replace(CommonFlags(), klog=klog), RecommenderFlags(), [])
    start.log_start("x", CommonFlags(), RecommenderFlags(), [])

    events = [json.loads(line) for line in told.getvalue().splitlines()]
    idle = [event["flags"] for event in events if event["event"] == "flags without effect here"]
    assert idle == [["--stderrthreshold", "--log-dir"]]


def test_a_flag_without_effect_of_one_component_is_told_like_those_of_all(told: StringIO) -> None:
    logs.set_up(LogFlags(), told)
    flags = UpdaterFlags(idle=IdleUpdaterFlags(concurrent_cpu_startup_boost_syncs=4))
    start.log_start("x", CommonFlags(), flags, [])

    assert json.loads(told.getvalue().splitlines()[-1])["flags"] == [
        "--concurrent-cpu-startup-boost-syncs"
    ]
