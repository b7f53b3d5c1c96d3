"""Checks of the API server: each finding seen, and not seen."""

from datetime import timedelta

import pytest
from support.makers.records import NOW

from trimtab.core.diagnosis.api_server import (
    ClockFacts,
    Definition,
    Rights,
    ServerFacts,
    check_clock,
    check_definitions,
    check_rights,
    check_server,
)
from trimtab.core.diagnosis.durations import brief
from trimtab.core.diagnosis.findings import Finding, Severity, Unseen

OK, NOTE, UNKNOWN = Severity.OK, Severity.NOTE, Severity.UNKNOWN
WARNING, PROBLEM = Severity.WARNING, Severity.PROBLEM


@pytest.mark.parametrize(
    ("can_resize", "wanting", "expected"),
    [
        pytest.param(True, [], [(OK, "")], id="a server that can resize pods"),
        pytest.param(True, ["a/b"], [(OK, "")], id="a server that can what a mode asks for"),
        pytest.param(False, [], [(NOTE, "")], id="an old server that nobody asks for it"),
        pytest.param(False, ["a/b"], [(WARNING, "a/b")], id="a mode that the server cannot"),
        pytest.param(Unseen("no"), ["a/b"], [(UNKNOWN, "")], id="a server that does not say"),
    ],
)
def test_the_server_is_judged_by_what_autoscalers_ask_of_it(
    can_resize: "bool | Unseen", wanting: list[str], expected: list[tuple[Severity, str]]
) -> None:
    found = list(check_server(ServerFacts("v1.36.0", can_resize), wanting))

    assert [(one.severity, one.subject) for one in found] == expected


@pytest.mark.parametrize(
    ("skew", "expected"),
    [
        pytest.param(timedelta(seconds=5), [], id="what a network makes of equal clocks"),
        pytest.param(-timedelta(seconds=5), [], id="the same the other way round"),
        pytest.param(timedelta(seconds=6), [WARNING], id="ahead by seconds"),
        pytest.param(-timedelta(minutes=4), [WARNING], id="behind by minutes"),
        pytest.param(timedelta(minutes=6), [PROBLEM], id="ahead by many minutes"),
        pytest.param(-timedelta(hours=1), [PROBLEM], id="behind by an hour"),
    ],
)
def test_clocks_may_differ_by_seconds_and_no_more(
    skew: timedelta, expected: list[Severity]
) -> None:
    found = list(check_clock(ClockFacts(NOW, NOW + skew)))

    assert [one.severity for one in found] == expected
    assert all(("ahead of" in one.text) == (skew > timedelta()) for one in found)
    assert all(brief(abs(skew)) in one.text for one in found)


def _rights(missing: tuple[str, ...] | Unseen, *, is_optional: bool = False) -> list[Finding]:
    one = Rights("kube-system/vpa", "its work", missing, is_optional)
    return list(check_rights([one]))


@pytest.mark.parametrize(
    ("found", "severity", "text"),
    [
        pytest.param(_rights(()), OK, "every right", id="nothing is missing"),
        pytest.param(_rights(("list pods",)), PROBLEM, "may not list pods", id="a right"),
        pytest.param(
            _rights(("list nodes",), is_optional=True), NOTE, "list nodes", id="one to do without"
        ),
        pytest.param(_rights(Unseen("who knows")), UNKNOWN, "who knows", id="nobody may ask"),
    ],
)
def test_a_missing_right_is_named_with_who_lacks_it(
    found: list[Finding], severity: Severity, text: str
) -> None:
    (one,) = found

    assert one.severity is severity
    assert text in one.text


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        pytest.param(Definition("vpas"), [], id="as it should be"),
        pytest.param(Definition("vpas", is_there=False), [PROBLEM], id="missing"),
        pytest.param(Definition("vpas", serves_v1=False), [PROBLEM], id="not served"),
        pytest.param(Definition("vpas", is_established=False), [PROBLEM], id="not established"),
        pytest.param(Definition("vpas", stores_v1=False), [WARNING], id="stored as another one"),
        pytest.param(Definition("vpas", missing_fields=("spec.x",)), [PROBLEM], id="a field gone"),
    ],
)
def test_a_definition_that_lacks_something_is_told_with_the_command_that_mends_it(
    definition: Definition, expected: list[Severity]
) -> None:
    found = list(check_definitions([definition]))

    assert [one.severity for one in found] == expected
    assert all(one.subject == "vpas" and "trimtab crds" in one.remedy for one in found)


def test_of_many_missing_fields_the_first_are_named_and_the_rest_counted() -> None:
    fields = tuple(f"spec.f{number}" for number in range(8))
    (found,) = check_definitions([Definition("vpas", missing_fields=fields)])

    assert found.text.endswith("spec.f0, spec.f1, spec.f2, spec.f3, spec.f4 and 3 more")


def test_a_definition_of_others_has_to_be_forced_and_the_text_says_why() -> None:
    definition = Definition("vpas", missing_fields=("spec.x",), managers=("kubectl-create",))
    (found,) = check_definitions([definition])

    assert found.remedy == "trimtab crds | kubectl apply --server-side --force-conflicts -f -"
    assert "to mend it needs --force-conflicts: kubectl-create owns fields" in found.text
