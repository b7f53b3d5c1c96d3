"""The page about the updater: it names every flag, every metric and every reason as they are."""

import importlib
import re
from datetime import timedelta
from pathlib import Path

import prometheus_client
import pytest

from trimtab.cli.flags import start
from trimtab.cli.flags.common import CommonFlags, KlogFlags
from trimtab.cli.flags.types import format_long_span, format_span
from trimtab.cli.flags.updater import IdleUpdaterFlags, UpdaterFlags
from trimtab.core.model.hold_reasons import HoldReason

PAGE = (Path(__file__).parents[3] / "docs/updater.md").read_text(encoding="utf-8")
FLAGS = start.list_flags(CommonFlags(), UpdaterFlags())
IDLE = start.list_flags(KlogFlags(), IdleUpdaterFlags())
ROWS = dict(re.findall(r"^\| `(--\S+)` \| (.*?) \|", PAGE, re.MULTILINE))


def shown(value: object) -> set[str]:
    """How a default may be written; what is empty or off is left out."""
    match value:
        case None | "" | False:
            return {""}
        case timedelta():
            return {f"`{format_span(value)}`", f"`{format_long_span(value)}`"}
        case True:
            return {"`true`"}
        case float():
            return {f"`{value:.12g}`"}
        case _:
            return {f"`{value}`"}


@pytest.mark.parametrize("name", sorted(FLAGS.keys() - IDLE.keys()))
def test_the_page_has_every_flag_with_its_default(name: str) -> None:
    assert ROWS.get(start.flag_name(name), "missing") in shown(FLAGS[name])


def test_the_page_has_no_flag_that_is_not_there() -> None:
    assert ROWS.keys() == {start.flag_name(name) for name in FLAGS.keys() - IDLE.keys()}


@pytest.mark.parametrize("name", IDLE)
def test_the_page_names_every_flag_without_effect(name: str) -> None:
    assert f"`{start.flag_name(name)}`" in PAGE


def test_the_page_names_every_metric_of_ours() -> None:
    importlib.import_module("trimtab.cli.components.updater")
    families = prometheus_client.REGISTRY.collect()
    ours = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in families
        if family.name.startswith(("vpa_updater_", "trimtab_"))
    }

    assert {"trimtab_leading", "vpa_updater_holds_total"} <= ours
    assert {name for name in ours if f"| `{name}` |" not in PAGE} == set()


@pytest.mark.parametrize("reason", HoldReason)
def test_the_page_has_a_remedy_for_every_reason_to_hold_a_pod(reason: HoldReason) -> None:
    rows = [line.split("|") for line in PAGE.splitlines() if f"`{reason.value}`" in line]

    assert any(len(row) == 5 and row[3].strip() for row in rows)


def test_the_page_names_no_reason_that_is_not_there() -> None:
    table = PAGE.partition("## Why nothing happens")[2].partition("## Flags")[0]
    named = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)

    assert {each for cell in named for each in re.findall(r"`(\w+)`", cell)} == {*HoldReason}
