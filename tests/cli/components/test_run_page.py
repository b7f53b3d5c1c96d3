"""The pages about all components in one process, and about horizontal autoscalers."""

import re
from pathlib import Path

import pytest
from support.readers.command_line import FORGIVING, flags_of

from trimtab.cli.flags import start
from trimtab.cli.flags.run import TogetherFlags
from trimtab.core.model.hpa import HpaConflict

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "run.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(--\S+)` \| ?(.*?) ?\|", PAGE, re.MULTILINE))
FLAGS = start.list_flags(TogetherFlags())


def test_the_page_has_every_flag_of_its_own_with_its_default() -> None:
    shown = {start.flag_name(name): f"`{value}`" if value else "" for name, value in FLAGS.items()}

    assert shown == ROWS


def test_the_page_names_the_flags_of_components_that_it_does_not_have() -> None:
    components = {flag.names[0] for name in FORGIVING for flag in flags_of((name,))}
    here = {flag.names[0] for flag in flags_of(("run",))}
    sentence = next(line for line in PAGE.splitlines() if "are no flags of `run`" in line)

    assert {f"`{name}`" for name in components - here} == set(re.findall(r"`--[a-z-]+`", sentence))


@pytest.mark.parametrize("choice", HpaConflict)
def test_the_page_about_horizontal_autoscalers_tells_of_every_choice(choice: HpaConflict) -> None:
    page = (DOCS / "hpa.md").read_text(encoding="utf-8")

    assert re.search(rf"^\| `{choice}`", page, re.MULTILINE)
