"""Registrations on the wire: read back as written, and patched where they differ."""

import base64
import json
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest

from trimtab.api.kinds.webhook_configurations import (
    decode_registration,
    encode_registration,
    encode_registration_patch,
)
from trimtab.api.wire.codec import DecodeError
from trimtab.core.webhook.registration import (
    MAIN,
    FailurePolicy,
    Registration,
    RegistrationSettings,
    ServiceAddress,
    plan_registration,
    with_bundle,
)

SERVICE = RegistrationSettings(ServiceAddress("trimtab", "vpa-webhook"), test_namespace="trimtab")
BY_URL = RegistrationSettings("https://127.0.0.1:8000", labels={"team": "a"})
TWO = replace(SERVICE, ignored_namespaces=frozenset({"trimtab", "b"}), timeout_seconds=3)
FAILING = replace(BY_URL, failure_policy=FailurePolicy.FAIL, selected_namespace="shop")

every_setting = pytest.mark.parametrize(
    "settings",
    [
        pytest.param(SERVICE, id="a service"),
        pytest.param(BY_URL, id="a url"),
        pytest.param(TWO, id="two webhooks"),
        pytest.param(FAILING, id="one namespace, and pods must wait"),
    ],
)


def made(settings: RegistrationSettings) -> Registration:
    return plan_registration(None, settings, "bundle\n")


def as_stored(registration: Registration, version: str = "7") -> Any:
    document = json.loads(encode_registration(registration))
    document["metadata"]["resourceVersion"] = version
    for webhook in document["webhooks"]:
        # What the API server fills in.
        webhook |= {"matchPolicy": "Equivalent", "reinvocationPolicy": "Never"}
    return document


@every_setting
def test_what_is_created_is_read_back_as_it_was_meant(settings: RegistrationSettings) -> None:
    stored = as_stored(made(settings))

    assert decode_registration(json.dumps(stored).encode()) == replace(
        made(settings), resource_version="7"
    )


@every_setting
def test_a_patch_makes_the_wanted_registration_of_any_other(settings: RegistrationSettings) -> None:
    for before in (SERVICE, BY_URL, FAILING):
        stored = as_stored(made(before))
        stored["webhooks"].insert(0, {"name": "other", "clientConfig": {"url": "https://x"}})
        found = decode_registration(json.dumps(stored).encode())
        wanted = with_bundle(plan_registration(found, settings, ""), "another\n")
        patch = json.loads(encode_registration_patch(found, wanted))
        patched = jsonpatch.apply_patch(stored, patch)

        assert patch[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
        assert decode_registration(json.dumps(patched).encode()) == wanted
        assert patched["webhooks"][0] == stored["webhooks"][0]
        assert patched["webhooks"][1]["matchPolicy"] == "Equivalent"


@every_setting
def test_a_registration_that_is_there_without_any_webhook_gets_them(
    settings: RegistrationSettings,
) -> None:
    metadata: dict[str, Any] = {"name": settings.name, "resourceVersion": "7"}
    stored = {"metadata": {**metadata, "labels": {"a": "b"}}}
    found = decode_registration(json.dumps(stored).encode())
    wanted = plan_registration(found, settings, "bundle\n")
    patched = jsonpatch.apply_patch(stored, json.loads(encode_registration_patch(found, wanted)))

    assert decode_registration(json.dumps(patched).encode()) == wanted
    assert patched["metadata"]["labels"] == {"a": "b", **settings.labels}


def test_the_bundle_alone_is_patched_where_nothing_else_differs() -> None:
    found = replace(made(SERVICE), resource_version="7")
    patch = json.loads(encode_registration_patch(found, with_bundle(found, "new\n")))

    assert [each["path"] for each in patch[1:]] == ["/webhooks/0/clientConfig"]
    assert base64.b64decode(patch[1]["value"]["caBundle"]) == b"new\n"


def test_what_the_original_registers_is_the_same_as_ours_but_for_the_timeout() -> None:
    rules = [
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]},
        {
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": ["autoscaling.k8s.io"],
            "apiVersions": ["*"],
            "resources": ["verticalpodautoscalers"],
        },
    ]
    client = {
        "service": {"namespace": "trimtab", "name": "vpa-webhook"},
        "caBundle": base64.b64encode(b"bundle\n").decode(),
    }
    webhook = {
        "name": MAIN,
        "clientConfig": client,
        "rules": rules,
        "failurePolicy": "Ignore",
        "timeoutSeconds": 30,
    }
    document = {"metadata": {"name": "vpa-webhook-config"}, "webhooks": [webhook]}
    theirs = decode_registration(json.dumps(document).encode()).find(MAIN)
    ours = made(SERVICE).find(MAIN)

    assert theirs
    assert ours == replace(theirs, timeout_seconds=5)


def test_a_bundle_that_is_not_base64_is_refused_with_its_path() -> None:
    webhook = {"name": MAIN, "clientConfig": {"caBundle": "?"}}

    with pytest.raises(DecodeError, match=r"webhooks\[0\]\.clientConfig\.caBundle"):
        decode_registration(json.dumps({"webhooks": [webhook]}).encode())
