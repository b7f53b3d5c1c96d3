"""MutatingWebhookConfigurations: our webhooks in one, its creation and its changes.

Webhooks of others in the same object are neither read nor changed.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from trimtab.api.kinds.selectors import LabelSelector, convert_selector
from trimtab.api.wire import codec, metadata
from trimtab.api.wire.codec import DecodeError, Int32, Wire
from trimtab.api.wire.metadata import NO_METADATA, Metadata
from trimtab.core.diagnosis.webhook import Mutator
from trimtab.core.model import json_patch
from trimtab.core.model.selectors import Selector
from trimtab.core.webhook.registration import (
    AUTOSCALERS,
    MAIN,
    PODS,
    SELF_TEST,
    Address,
    FailurePolicy,
    Registration,
    ServiceAddress,
    Webhook,
    WebhookRule,
)

_OURS: Final = frozenset({MAIN, SELF_TEST})
_HTTPS: Final = 443
_DEFAULT_TIMEOUT_SECONDS: Final = 10
"""The API server's default."""

_Json: TypeAlias = (
    str
    | int
    | list[str]
    | Mapping[str, str]
    | Mapping[str, object]
    | list[dict[str, object]]
    | list[dict[str, "_Json"]]
)


class _Service(Wire, frozen=True, kw_only=True):
    namespace: str | None = None
    name: str | None = None
    port: Int32 | None = None


class _Client(Wire, frozen=True, kw_only=True):
    service: _Service | None = None
    url: str | None = None
    ca_bundle: str | None = None


class _Rule(Wire, frozen=True, kw_only=True):
    operations: tuple[str, ...] | None = None
    api_groups: tuple[str, ...] | None = None
    api_versions: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    scope: str | None = None


class _Webhook(Wire, frozen=True, kw_only=True):
    name: str | None = None
    client_config: _Client | None = None
    rules: tuple[_Rule, ...] | None = None
    failure_policy: str | None = None
    timeout_seconds: Int32 | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None


class _Registration(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    webhooks: tuple[_Webhook, ...] | None = None


_DECODER: Final = msgspec.json.Decoder(_Registration)


def decode_registration(data: bytes) -> Registration:
    """Return the registration in the JSON of a MutatingWebhookConfiguration."""
    source = codec.decode(_DECODER, data)
    meta = source.metadata or NO_METADATA
    return Registration(
        name=meta.name or "",
        webhooks=codec.convert_each(source.webhooks, _read_webhook, "webhooks"),
        resource_version=meta.resource_version or "",
        labels=metadata.text_map(meta.labels),
        annotations=metadata.text_map(meta.annotations),
    )


def encode_registration(registration: Registration) -> bytes:
    """Return the JSON of a registration, to create it."""
    return codec.encode(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {
                "name": registration.name,
                "labels": registration.labels,
                "annotations": registration.annotations,
            },
            "webhooks": [_write_webhook(each) for each in registration.webhooks if each],
        }
    )


def encode_registration_patch(found: Registration, wanted: Registration) -> bytes:
    """Return the JSON Patch from `found`, in exactly its version, to `wanted`."""
    version = {
        "op": "test",
        "path": "/metadata/resourceVersion",
        "value": found.resource_version,
    }
    changes = [
        {"op": "add", "path": path, "value": value} for path, value in _changes(found, wanted)
    ]
    return codec.encode([version, *changes])


def _changes(found: Registration, wanted: Registration) -> Iterator[tuple[str, _Json]]:
    """Yield the fields that differ, with their wanted values; webhooks are only appended."""
    if found.labels != wanted.labels:
        yield "/metadata/labels", wanted.labels
    if found.annotations != wanted.annotations:
        yield "/metadata/annotations", wanted.annotations
    if not found.webhooks:
        # A registration from a chart has no list, and nothing can be appended to it.
        yield "/webhooks", [_write_webhook(each) for each in wanted.webhooks if each]
        return
    for index, webhook in enumerate(wanted.webhooks):
        before = found.webhooks[index] if index < len(found.webhooks) else None
        if webhook is None or webhook == before:
            continue
        if before is None:
            yield "/webhooks/-", _write_webhook(webhook)
            continue
        old, new = _write_webhook(before), _write_webhook(webhook)
        for key, value in new.items():
            if old[key] != value:
                yield json_patch.pointer("webhooks", index, key), value


def _read_webhook(source: _Webhook, path: str) -> Webhook | None:
    if source.name not in _OURS:
        return None
    client = source.client_config or _Client()
    return Webhook(
        name=source.name,
        address=_read_address(client),
        bundle=_read_bundle(client.ca_bundle or "", f"{path}.clientConfig.caBundle"),
        rules=tuple(map(_read_rule, source.rules or ())),
        failure_policy=FailurePolicy.IGNORE
        if source.failure_policy == FailurePolicy.IGNORE
        else FailurePolicy.FAIL,
        timeout_seconds=source.timeout_seconds or _DEFAULT_TIMEOUT_SECONDS,
        namespaces=_read_selector(source.namespace_selector, f"{path}.namespaceSelector"),
        objects=_read_selector(source.object_selector, f"{path}.objectSelector"),
    )


def _read_address(source: _Client) -> Address:
    if source.service is None:
        return source.url or ""
    service = source.service
    return ServiceAddress(service.namespace or "", service.name or "", service.port or _HTTPS)


def _read_bundle(text: str, path: str) -> str:
    try:
        # Bytes that are no text hold no certificate.
        return base64.b64decode(text, validate=True).decode(errors="replace")
    except binascii.Error as error:
        raise DecodeError(path, f"not base64: {error}") from error


def _read_rule(source: _Rule) -> WebhookRule:
    return WebhookRule(
        operations=source.operations or (),
        groups=source.api_groups or (),
        versions=source.api_versions or (),
        resources=source.resources or (),
        scope=source.scope or "*",
    )


def _read_selector(source: LabelSelector | None, path: str) -> Selector:
    return convert_selector(source, path) or Selector()


def _write_webhook(webhook: Webhook) -> dict[str, _Json]:
    return {
        "name": webhook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": _write_client(webhook),
        "rules": [_write_rule(rule) for rule in webhook.rules],
        "failurePolicy": webhook.failure_policy,
        "sideEffects": "None",
        "timeoutSeconds": webhook.timeout_seconds,
        "namespaceSelector": _write_selector(webhook.namespaces),
        "objectSelector": _write_selector(webhook.objects),
    }


def _write_client(webhook: Webhook) -> Mapping[str, object]:
    bundle = {"caBundle": base64.b64encode(webhook.bundle.encode()).decode()}
    address = webhook.address
    if isinstance(address, str):
        return {"url": address, **bundle}
    service = {"namespace": address.namespace, "name": address.name, "port": address.port}
    return {"service": service, **bundle}


def _write_rule(rule: WebhookRule) -> dict[str, object]:
    return {
        "operations": rule.operations,
        "apiGroups": rule.groups,
        "apiVersions": rule.versions,
        "resources": rule.resources,
        "scope": rule.scope,
    }


def _write_selector(selector: Selector) -> Mapping[str, object]:
    if not selector.requirements:
        return {}
    return {
        "matchExpressions": [
            {"key": each.key, "operator": each.operator}
            | ({"values": each.values} if each.values else {})
            for each in selector.requirements
        ]
    }


class _MutatorRule(Wire, frozen=True, kw_only=True):
    operations: tuple[str, ...] | None = None
    api_groups: tuple[str, ...] | None = None
    api_versions: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None


class _MutatorWebhook(Wire, frozen=True, kw_only=True):
    name: str | None = None
    rules: tuple[_MutatorRule, ...] | None = None
    failure_policy: str | None = None
    reinvocation_policy: str | None = None
    timeout_seconds: Int32 | None = None


class _Configuration(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    webhooks: tuple[_MutatorWebhook, ...] | None = None


_MUTATOR_DECODER: Final = msgspec.json.Decoder(_Configuration)
_MUTATOR_TIMEOUT_SECONDS: Final = 10
_ANY: Final = "*"


def decode_mutators(data: bytes) -> tuple[Mutator, ...]:
    """Return the webhooks in the JSON of one MutatingWebhookConfiguration, in order."""
    source = codec.decode(_MUTATOR_DECODER, data)
    configuration = (source.metadata or NO_METADATA).name or ""
    return tuple(_convert(configuration, each) for each in source.webhooks or ())


def order_mutators(found: Iterable[tuple[Mutator, ...]]) -> tuple[Mutator, ...]:
    """Return our webhooks and those that review new pods, in the API server's calling order."""

    def relevant() -> Iterator[Mutator]:
        for group in found:
            yield from (one for one in group if one.is_ours or one.sees_new_pods)

    # The sort is stable: webhooks of one configuration keep their order.
    return tuple(sorted(relevant(), key=lambda one: one.configuration))


def _convert(configuration: str, source: _MutatorWebhook) -> Mutator:
    rules = source.rules or ()
    return Mutator(
        configuration=configuration,
        name=source.name or "",
        sees_new_pods=any(_covers(rule, PODS) for rule in rules),
        sees_autoscalers=any(_covers(rule, AUTOSCALERS) for rule in rules),
        fails_closed=source.failure_policy != FailurePolicy.IGNORE,
        is_reinvoked=source.reinvocation_policy == "IfNeeded",
        timeout_seconds=source.timeout_seconds or _MUTATOR_TIMEOUT_SECONDS,
    )


def _covers(rule: _MutatorRule, wanted: WebhookRule) -> bool:
    """Return True if a rule covers the first operation of the wanted rule."""
    pairs = (
        (rule.operations, wanted.operations[:1]),
        (rule.api_groups, wanted.groups),
        (rule.resources, wanted.resources),
    )
    return all(_ANY in (given or ()) or set(asked) & set(given or ()) for given, asked in pairs)
