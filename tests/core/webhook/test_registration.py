"""The registration: made whole, changed where it differs, and left as it was tuned."""

from dataclasses import replace

import pytest

from trimtab.core.model.selectors import LabelRequirement, Operator, Selector
from trimtab.core.model.validation import SettingsError
from trimtab.core.webhook.registration import (
    MAIN,
    PODS,
    SELF_TEST,
    SELF_TEST_LABEL,
    FailurePolicy,
    Registration,
    RegistrationSettings,
    ServiceAddress,
    Webhook,
    plan_registration,
    with_bundle,
)

SETTINGS = RegistrationSettings(ServiceAddress("trimtab", "vpa-webhook"), test_namespace="trimtab")
NAMESPACE = "kubernetes.io/metadata.name"


def registered(settings: RegistrationSettings = SETTINGS) -> Registration:
    made = plan_registration(None, settings, "bundle")
    return replace(made, resource_version="7")


def main_of(registration: Registration) -> Webhook:
    found = registration.find(MAIN)
    assert found
    return found


def tuned(registration: Registration, **changes: object) -> Registration:
    webhooks = tuple(each and replace(each, **changes) for each in registration.webhooks)  # type: ignore[arg-type]
    return replace(registration, webhooks=webhooks)


def test_a_new_registration_has_one_webhook_that_pods_wait_five_seconds_for() -> None:
    made = plan_registration(None, replace(SETTINGS, labels={"team": "a"}), "bundle")

    assert made.name == "vpa-webhook-config"
    assert made.labels == {"team": "a"}
    assert [each and each.name for each in made.webhooks] == [MAIN]
    assert main_of(made) == Webhook(MAIN, SETTINGS.address, "bundle")
    assert main_of(made).timeout_seconds == 5
    assert main_of(made).failure_policy is FailurePolicy.IGNORE


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(SETTINGS, id="a service"),
        pytest.param(RegistrationSettings("https://127.0.0.1:1"), id="a url"),
        pytest.param(replace(SETTINGS, ignored_namespaces=frozenset({"trimtab"})), id="two"),
        pytest.param(replace(SETTINGS, injected_from="trimtab/webhook"), id="cert-manager"),
    ],
)
def test_a_registration_as_it_should_be_is_left_alone(settings: RegistrationSettings) -> None:
    found = registered(settings)

    assert plan_registration(found, settings, "another bundle") == found


@pytest.mark.parametrize(
    ("settings", "namespaces"),
    [
        pytest.param(SETTINGS, Selector(), id="all namespaces"),
        pytest.param(
            replace(SETTINGS, ignored_namespaces=frozenset({"b", "a"})),
            Selector((LabelRequirement(NAMESPACE, Operator.NOT_IN, ("a", "b")),)),
            id="all but some",
        ),
        pytest.param(
            replace(SETTINGS, selected_namespace="shop"),
            Selector((LabelRequirement(NAMESPACE, Operator.IN, ("shop",)),)),
            id="only one",
        ),
        pytest.param(
            replace(SETTINGS, selected_namespace="shop", ignored_namespaces=frozenset({"a"})),
            Selector((LabelRequirement(NAMESPACE, Operator.NOT_IN, ("a",)),)),
            id="ignored ones come first",
        ),
    ],
)
def test_we_are_asked_about_the_namespaces_of_the_settings(
    settings: RegistrationSettings, namespaces: Selector
) -> None:
    assert main_of(registered(settings)).namespaces == namespaces


def test_f40_a_restart_does_not_reset_what_was_tuned_by_hand() -> None:
    by_hand = tuned(registered(), timeout_seconds=2, failure_policy=FailurePolicy.FAIL)
    changed = plan_registration(by_hand, replace(SETTINGS, timeout_seconds=3), "")

    assert plan_registration(by_hand, SETTINGS, "") == by_hand
    assert main_of(changed).timeout_seconds == 3
    assert main_of(changed).failure_policy is FailurePolicy.IGNORE


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        pytest.param(30, 5, id="the original's default was nobody's choice"),
        pytest.param(10, 10, id="anything else was somebody's choice"),
    ],
)
def test_a_registration_of_the_original_is_taken_over(theirs: int, ours: int) -> None:
    address = ServiceAddress("kube-system", "vpa-webhook")
    webhook = Webhook(MAIN, address, "their bundle", (PODS,), timeout_seconds=theirs)
    found = Registration("vpa-webhook-config", (None, webhook), "7", {"app": "vpa"}, {"by": "helm"})
    planned = plan_registration(found, SETTINGS, "our bundle")
    main = main_of(planned)

    assert planned.webhooks[0] is None
    assert planned.labels == {"app": "vpa"}
    assert planned.annotations["by"] == "helm"
    assert main == Webhook(MAIN, SETTINGS.address, "their bundle", timeout_seconds=ours)


@pytest.mark.parametrize(
    ("settings", "has_own"),
    [
        pytest.param(SETTINGS, False, id="our namespace is covered"),
        pytest.param(
            replace(SETTINGS, ignored_namespaces=frozenset({"trimtab"})), True, id="it is ignored"
        ),
        pytest.param(
            replace(SETTINGS, selected_namespace="shop"), True, id="another one is selected"
        ),
        pytest.param(
            replace(SETTINGS, selected_namespace="shop", test_namespace=""), False, id="no test"
        ),
    ],
)
def test_trial_pods_have_their_own_webhook_where_no_other_sees_them(
    settings: RegistrationSettings, *, has_own: bool
) -> None:
    found = registered(settings).find(SELF_TEST)

    assert (found is not None) is has_own
    if found is not None:
        assert found.rules == (PODS,)
        assert found.namespaces.matches({NAMESPACE: "trimtab"})
        assert found.objects.matches({SELF_TEST_LABEL: "word"})
        assert not found.objects.matches({})
        assert found.bundle == "bundle"


def test_a_bundle_is_written_into_every_webhook_of_ours() -> None:
    settings = replace(SETTINGS, selected_namespace="shop")
    found = replace(registered(settings), webhooks=(None, *registered(settings).webhooks))
    written = with_bundle(found, "new")

    assert [each and each.bundle for each in written.webhooks] == [None, "new", "new"]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"timeout_seconds": 0}, id="no time at all"),
        pytest.param({"timeout_seconds": 31}, id="longer than any API server waits"),
        pytest.param({"address": "127.0.0.1:8000"}, id="a url without its scheme"),
    ],
)
def test_what_the_api_server_would_refuse_is_refused_at_once(fields: dict[str, int]) -> None:
    with pytest.raises(SettingsError):
        replace(SETTINGS, **fields)  # type: ignore[arg-type]


def test_a_certificate_of_cert_manager_lets_it_keep_the_bundle() -> None:
    settings = replace(SETTINGS, injected_from="trimtab/webhook")

    assert registered(settings).is_injected
    assert not registered().is_injected
