"""The page about the recommender: it names every flag and every metric as they are."""

import importlib
import re
from datetime import timedelta
from pathlib import Path

import prometheus_client
import pytest

from trimtab.cli.flags import start
from trimtab.cli.flags.common import CommonFlags, KlogFlags
from trimtab.cli.flags.recommender import RecommenderFlags
from trimtab.cli.flags.types import format_long_span, format_span

PAGE = (Path(__file__).parents[3] / "docs/recommender.md").read_text(encoding="utf-8")
FLAGS = start.list_flags(CommonFlags(), RecommenderFlags())
IDLE = start.list_flags(KlogFlags())
ROWS = dict(re.findall(r"^\| `(--\S+)` \| (.*?) \|", PAGE, re.MULTILINE))


def shown(value: object) -> set[str]:
    """How a default may be written; what is empty or off is left out."""
    match value:
        case None | "" | False:
            return {""}
        case timedelta():
            return {f"`{format_span(value)}`", f"`{format_long_span(value)}`"}
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
    importlib.import_module("trimtab.cli.components.recommender")
    families = prometheus_client.REGISTRY.collect()
    ours = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in families
        if family.name.startswith(("vpa_recommender_", "vpa_quality_", "trimtab_"))
    }

    assert {"trimtab_leading", "vpa_recommender_vpa_objects_count"} <= ours
    assert {name for name in ours if f"| `{name}` |" not in PAGE} == set()
