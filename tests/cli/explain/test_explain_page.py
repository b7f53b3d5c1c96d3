"""The page about explanations: it names every step, check, reason and key as they are."""

import re
from pathlib import Path

import msgspec
import pytest

from trimtab.api.explain.document import Explanation, ShownAutoscaler, ShownCondition
from trimtab.api.explain.pods import PodsPage, ShownCheck, ShownPod, ShownPodContainer
from trimtab.api.explain.recommendation import (
    NumbersPage,
    ShownBucket,
    ShownContainer,
    ShownNumber,
    ShownResource,
    ShownStep,
    Transition,
)
from trimtab.core.explain.update_checks import CheckVerdict
from trimtab.core.recommendation.steps import StepKind
from trimtab.core.updates.checks.check import KIND_OF, CheckKind

PAGE = (Path(__file__).parents[3] / "docs/explain.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE))
KEYS = PAGE.partition("## JSON")[2].partition("## Pages")[0]
TOLD = (
    *(Explanation, ShownAutoscaler, ShownCondition),
    *(NumbersPage, ShownContainer, ShownResource, ShownNumber, ShownBucket, ShownStep, Transition),
    *(PodsPage, ShownPod, ShownCheck, ShownPodContainer),
)


@pytest.mark.parametrize("kind", CheckKind)
def test_the_page_has_every_check_with_its_reasons(kind: CheckKind) -> None:
    reasons = [reason.value for reason, of in KIND_OF.items() if of is kind]

    assert sorted(re.findall(r"`(\w+)`", ROWS[kind])) == sorted(reasons)


@pytest.mark.parametrize("kind", StepKind)
def test_the_page_has_every_step(kind: StepKind) -> None:
    assert f"`{kind.value}`" in PAGE.partition("## Steps of a number")[2]


@pytest.mark.parametrize("record", TOLD)
def test_the_page_has_every_key(record: type[msgspec.Struct]) -> None:
    keys = {field.encode_name for field in msgspec.structs.fields(record)}

    assert {key for key in keys if not re.search(rf"\b{key}\b", KEYS)} == set()


def test_the_page_has_every_verdict() -> None:
    assert all(verdict.value in KEYS for verdict in CheckVerdict)
