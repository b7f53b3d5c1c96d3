"""What surrounds the webhook server, as flags say."""

from pathlib import Path

import pytest

from trimtab.cli.components.admission_webhook import (
    WebhookPlace,
    find_place,
    parse_labels,
    to_upkeep_settings,
)
from trimtab.cli.flags.admission import AdmissionFlags, CareFlags, RegistrationFlags, TlsFlags
from trimtab.cli.flags.common import ClusterFlags
from trimtab.core.model.validation import SettingsError
from trimtab.core.webhook.registration import FailurePolicy, RegistrationSettings, ServiceAddress

HERE = WebhookPlace("trimtab", has_files=False)
BY_URL = RegistrationFlags(
    register_by_url=True, webhook_address="https://127.0.0.1", webhook_port="8000"
)


def registered(
    *, flags: RegistrationFlags | None = None, cluster: ClusterFlags | None = None
) -> RegistrationSettings:
    given = AdmissionFlags(registration=flags or RegistrationFlags())
    return to_upkeep_settings(cluster or ClusterFlags(), given, HERE).registration


def test_by_default_we_are_asked_through_a_service_and_wait_in_nobodys_way() -> None:
    assert registered() == RegistrationSettings(
        ServiceAddress("trimtab", "vpa-webhook"), test_namespace="trimtab"
    )


def test_every_flag_of_the_registration_reaches_it() -> None:
    flags = RegistrationFlags(
        webhook_service="hook",
        webhook_timeout_seconds=7,
        webhook_failure_policy_fail=True,
        webhook_labels="team:a",
    )
    cluster = ClusterFlags(ignored_vpa_object_namespaces="a,b", vpa_object_namespace="shop")

    assert registered(flags=flags, cluster=cluster) == RegistrationSettings(
        ServiceAddress("trimtab", "hook"),
        failure_policy=FailurePolicy.FAIL,
        timeout_seconds=7,
        labels={"team": "a"},
        ignored_namespaces=frozenset({"a", "b"}),
        selected_namespace="shop",
        test_namespace="trimtab",
    )


def test_a_url_is_put_together_as_it_was_given() -> None:
    assert registered(flags=BY_URL).address == "https://127.0.0.1:8000"


def test_a_url_without_its_scheme_is_refused() -> None:
    with pytest.raises(SettingsError):
        registered(flags=RegistrationFlags(register_by_url=True, webhook_address="127.0.0.1"))


def test_without_a_self_test_there_are_no_trial_pods() -> None:
    flags = AdmissionFlags(care=CareFlags(self_test=False, webhook_inject_ca_from="a/b"))
    settings = to_upkeep_settings(ClusterFlags(), flags, HERE).registration

    assert settings.test_namespace == ""
    assert settings.injected_from == "a/b"


@pytest.mark.parametrize(
    ("registers", "has_files", "keeps_bundle"),
    [
        pytest.param(True, False, True, id="everything is ours"),
        pytest.param(True, True, True, id="the keys are somebody else's"),
        pytest.param(False, False, True, id="the registration is somebody else's"),
        pytest.param(False, True, False, id="both are somebody else's"),
    ],
)
def test_the_bundle_is_kept_unless_somebody_else_keeps_all(
    *, registers: bool, has_files: bool, keeps_bundle: bool
) -> None:
    flags = AdmissionFlags(registration=RegistrationFlags(register_webhook=registers))
    settings = to_upkeep_settings(ClusterFlags(), flags, WebhookPlace("trimtab", has_files))

    assert settings.registers is registers
    assert settings.keeps_bundle is keeps_bundle


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        pytest.param("", {}, id="none"),
        pytest.param("a:b", {"a": "b"}, id="one"),
        pytest.param("'a:b, c:d'", {"a": "b", "c": "d"}, id="quotes and spaces"),
        pytest.param("a:", {"a": ""}, id="an empty value"),
        pytest.param("a:b,c", {}, id="one without a value spoils all"),
        pytest.param("a:b:c", {}, id="one with two values spoils all"),
    ],
)
def test_labels_are_read_as_the_original_reads_them(text: str, labels: dict[str, str]) -> None:
    assert parse_labels(text) == labels


def test_a_certificate_file_decides_where_the_keys_are(tmp_path: Path) -> None:
    file = tmp_path / "serverCert.pem"
    flags = TlsFlags(tls_cert_file=str(file))
    without = find_place(flags, {})
    file.touch()

    assert without == WebhookPlace("kube-system", has_files=False)
    assert find_place(flags, {"NAMESPACE": "trimtab"}) == WebhookPlace("trimtab", has_files=True)
