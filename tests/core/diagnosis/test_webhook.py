"""Checks of the webhook: each finding seen, and not seen."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.makers.records import NOW

from trimtab.core.diagnosis.findings import Severity, Unseen
from trimtab.core.diagnosis.webhook import (
    Certificate,
    CertificateFacts,
    Mutator,
    Trial,
    WebhookFacts,
    check_certificate,
    check_other_webhooks,
    check_webhook,
    list_trial_namespaces,
)
from trimtab.core.webhook.registration import (
    Registration,
    RegistrationSettings,
    ServiceAddress,
    plan_registration,
)

OK, NOTE, UNKNOWN = Severity.OK, Severity.NOTE, Severity.UNKNOWN
WARNING, PROBLEM = Severity.WARNING, Severity.PROBLEM

OURS = Mutator("vpa-webhook-config", "vpa.k8s.io")
OTHER = Mutator("sidecars", "inject.example.org")
PASSED = Trial(has_passed=True)
WELL = WebhookFacts((OURS,), 2, PASSED)


def registered(**fields: Any) -> Registration:
    return plan_registration(None, RegistrationSettings(**fields), "")


URL = "https://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("registration", "expected"),
    [
        pytest.param(
            registered(address=URL, selected_namespace="shop", test_namespace="vpa"),
            ["vpa"],
            id="the webhook of test pods names it",
        ),
        pytest.param(
            registered(address=ServiceAddress("vpa", "webhook")), ["vpa"], id="the Service does"
        ),
        pytest.param(
            registered(address=URL), ["lease", "kube-system"], id="the lease is a good guess"
        ),
    ],
)
def test_a_pod_is_tried_where_the_admission_controller_runs(
    registration: Registration, expected: list[str]
) -> None:
    assert list_trial_namespaces(registration, ["lease", "lease"]) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(WELL, [OK], id="all is well"),
        pytest.param(replace(WELL, ready_addresses=None), [OK], id="it is called by URL"),
        pytest.param(WebhookFacts((OTHER,), None, PASSED), [PROBLEM], id="nobody is registered"),
        pytest.param(
            WebhookFacts((replace(OURS, sees_new_pods=False),), 1, PASSED),
            [PROBLEM, OK],
            id="pods are left out",
        ),
        pytest.param(
            WebhookFacts((replace(OURS, sees_autoscalers=False),), 1, PASSED),
            [WARNING, OK],
            id="autoscalers are left out",
        ),
        pytest.param(
            WebhookFacts((replace(OURS, fails_closed=True),), 1, PASSED),
            [NOTE, OK],
            id="no pod without it",
        ),
        pytest.param(
            WebhookFacts((replace(OURS, timeout_seconds=30),), 1, PASSED),
            [WARNING, OK],
            id="pods wait for long",
        ),
        pytest.param(replace(WELL, ready_addresses=0), [PROBLEM, OK], id="nobody behind it"),
        pytest.param(
            replace(WELL, ready_addresses=Unseen("no")), [UNKNOWN, OK], id="nobody may count"
        ),
        pytest.param(replace(WELL, trial=Trial(has_passed=False)), [PROBLEM], id="no patch"),
        pytest.param(replace(WELL, trial=Unseen("no")), [UNKNOWN], id="no trial"),
    ],
)
def test_a_webhook_is_judged_by_what_becomes_of_new_pods(
    facts: WebhookFacts, expected: list[Severity]
) -> None:
    found = list(check_webhook(facts))

    assert [one.severity for one in found] == expected
    assert all(one.remedy for one in found if one.severity in (WARNING, PROBLEM))


SHOWN = Certificate("webhook", NOW - timedelta(days=1), NOW + timedelta(days=60))
AUTHORITY = Certificate("authority", NOW - timedelta(days=1), NOW + timedelta(days=300))
BELIEVED = CertificateFacts(NOW, (AUTHORITY,), SHOWN, is_believed=True)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(BELIEVED, [OK], id="believed for long"),
        pytest.param(
            replace(BELIEVED, shown=replace(SHOWN, ends_at=NOW)), [PROBLEM], id="ended just now"
        ),
        pytest.param(
            replace(BELIEVED, shown=replace(SHOWN, ends_at=NOW), is_believed=False),
            [PROBLEM],
            id="ended, and so not believed",
        ),
        pytest.param(
            replace(BELIEVED, shown=replace(SHOWN, ends_at=NOW + timedelta(days=6))),
            [WARNING],
            id="it ends soon",
        ),
        pytest.param(
            replace(BELIEVED, shown=replace(SHOWN, begins_at=NOW + timedelta(days=6))),
            [PROBLEM],
            id="not valid yet",
        ),
        pytest.param(replace(BELIEVED, is_believed=False), [OK, PROBLEM], id="signed by another"),
        pytest.param(replace(BELIEVED, authorities=()), [PROBLEM, OK], id="nobody is believed"),
        pytest.param(
            replace(BELIEVED, authorities=(replace(AUTHORITY, ends_at=NOW),)),
            [PROBLEM, OK],
            id="all authorities have ended",
        ),
        pytest.param(
            replace(BELIEVED, authorities=(replace(AUTHORITY, ends_at=NOW), AUTHORITY)),
            [OK],
            id="one of two authorities has ended",
        ),
        pytest.param(replace(BELIEVED, shown=Unseen("no")), [UNKNOWN], id="none was seen"),
        pytest.param(
            replace(BELIEVED, is_believed=Unseen("no")), [OK, UNKNOWN], id="no second handshake"
        ),
    ],
)
def test_a_certificate_is_judged_by_its_times_and_by_who_signed_it(
    facts: CertificateFacts, expected: list[Severity]
) -> None:
    found = list(check_certificate(facts))

    assert [one.severity for one in found] == expected
    assert all(one.remedy for one in found if one.severity in (WARNING, PROBLEM))


def test_it_is_told_how_long_ago_a_certificate_has_ended() -> None:
    ended = replace(SHOWN, ends_at=NOW - timedelta(hours=30))
    (found,) = check_certificate(replace(BELIEVED, shown=ended))

    assert "has ended 1d6h ago" in found.text


@pytest.mark.parametrize(
    ("mutators", "expected"),
    [
        pytest.param((OURS,), [], id="nobody else"),
        pytest.param((OTHER, OURS), [], id="one that is asked before us"),
        pytest.param((OURS, OTHER), [NOTE], id="one that is asked after us"),
        pytest.param(
            (replace(OURS, is_reinvoked=True), OTHER), [], id="one after which we are asked again"
        ),
        pytest.param((OURS, replace(OTHER, sees_new_pods=False)), [], id="one without pods"),
        pytest.param((OTHER,), [], id="we are not there at all"),
        pytest.param(
            (OURS, replace(OURS, name="self-test.vpa.k8s.io")), [], id="the one of our test pods"
        ),
        pytest.param(
            (OURS, replace(OURS, configuration="gke-vpa")), [PROBLEM], id="another autoscaler"
        ),
    ],
)
def test_only_webhooks_that_are_asked_after_ours_can_undo_what_it_did(
    mutators: tuple[Mutator, ...], expected: list[Severity]
) -> None:
    found = list(check_other_webhooks(WebhookFacts(mutators)))

    assert [one.severity for one in found] == expected
