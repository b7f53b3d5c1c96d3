"""The words of a diagnosis: what counts as bad, and what could not be seen."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.diagnosis import (
    Finding,
    Severity,
    Unseen,
    conclude,
    format_span,
    seen,
    unknown,
)


def test_a_check_that_finds_nothing_says_that_all_is_well() -> None:
    diagnosis = conclude("clock", [], "the clocks agree")

    assert diagnosis.severity is Severity.OK
    assert [one.text for one in diagnosis.findings] == ["the clocks agree"]


def test_what_could_not_be_seen_is_never_counted_as_good() -> None:
    findings = list(seen(Unseen("you may not list pods", "ask for it"), lambda _: []))

    assert findings == [Finding(Severity.UNKNOWN, "you may not list pods", "ask for it")]
    assert conclude("pods", findings, "fine").severity is Severity.UNKNOWN


@given(st.lists(st.sampled_from(Severity), min_size=1, max_size=60))
def test_the_worst_finding_stands_first_and_gives_the_check_its_severity(
    severities: list[Severity],
) -> None:
    diagnosis = conclude("any", [Finding(one, "text") for one in severities], "fine")
    ranks = [one.severity.rank for one in diagnosis.findings]

    assert ranks == sorted(ranks, reverse=True)
    assert diagnosis.severity is max(severities, key=lambda one: one.rank)
    assert len(diagnosis.findings) <= 21


def test_of_very_many_findings_the_rest_is_counted() -> None:
    diagnosis = conclude("any", [Finding(Severity.NOTE, "text")] * 50, "fine")

    assert diagnosis.findings[-1].text == "and 30 more of this kind, or less grave"


def test_a_thing_that_nobody_saw_can_be_named() -> None:
    assert unknown(Unseen("no"), "shop/web").subject == "shop/web"


@pytest.mark.parametrize(
    ("span", "text"),
    [
        pytest.param(timedelta(seconds=40), "40s", id="seconds"),
        pytest.param(timedelta(seconds=119), "119s", id="less than two minutes"),
        pytest.param(timedelta(minutes=90), "90m", id="less than two hours"),
        pytest.param(timedelta(hours=30), "30h", id="less than two days"),
        pytest.param(timedelta(days=9, hours=5), "9d", id="days"),
        pytest.param(-timedelta(seconds=40), "40s", id="in the past"),
    ],
)
def test_a_span_is_told_in_the_largest_unit_that_says_enough(span: timedelta, text: str) -> None:
    assert format_span(span) == text
