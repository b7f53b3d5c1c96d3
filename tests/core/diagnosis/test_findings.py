"""The words of a diagnosis: what counts as bad, and what could not be seen."""

from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.diagnosis.findings import Finding, Severity, Unseen, conclude, seen, unknown


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
