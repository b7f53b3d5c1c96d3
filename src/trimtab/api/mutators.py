"""Webhooks that may change pods, of whoever they are: as much of them as a diagnosis needs.

What is ours in a registration, and how that is changed, is in `registrations.py`.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from trimtab.api.decoding import Int32, Wire, decode
from trimtab.api.metadata import NO_METADATA, Metadata
from trimtab.core.diagnosis_admission import Mutator
from trimtab.core.registration import AUTOSCALERS, PODS, FailurePolicy, Rule


class _Rule(Wire, frozen=True, kw_only=True):
    operations: tuple[str, ...] | None = None
    api_groups: tuple[str, ...] | None = None
    api_versions: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None


class _Webhook(Wire, frozen=True, kw_only=True):
    name: str | None = None
    rules: tuple[_Rule, ...] | None = None
    failure_policy: str | None = None
    reinvocation_policy: str | None = None
    timeout_seconds: Int32 | None = None


class _Configuration(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    webhooks: tuple[_Webhook, ...] | None = None


_DECODER: Final = msgspec.json.Decoder(_Configuration)
_DEFAULT_TIMEOUT_SECONDS: Final = 10
_ANY: Final = "*"


def decode_mutators(data: bytes) -> tuple[Mutator, ...]:
    """The webhooks in the JSON of one MutatingWebhookConfiguration, in their order."""
    source = decode(_DECODER, data)
    configuration = (source.metadata or NO_METADATA).name or ""
    return tuple(_convert(configuration, each) for each in source.webhooks or ())


def order_mutators(found: Iterable[tuple[Mutator, ...]]) -> tuple[Mutator, ...]:
    """Those that are ours or see new pods, in the order in which the API server asks them."""

    def relevant() -> Iterator[Mutator]:
        for group in found:
            yield from (one for one in group if one.is_ours or one.sees_new_pods)

    # Within one configuration they keep their order.
    return tuple(sorted(relevant(), key=lambda one: one.configuration))


def _convert(configuration: str, source: _Webhook) -> Mutator:
    rules = source.rules or ()
    return Mutator(
        configuration=configuration,
        name=source.name or "",
        sees_new_pods=any(_covers(rule, PODS) for rule in rules),
        sees_autoscalers=any(_covers(rule, AUTOSCALERS) for rule in rules),
        fails_closed=source.failure_policy != FailurePolicy.IGNORE,
        is_reinvoked=source.reinvocation_policy == "IfNeeded",
        timeout_seconds=source.timeout_seconds or _DEFAULT_TIMEOUT_SECONDS,
    )


def _covers(rule: _Rule, wanted: Rule) -> bool:
    """Whether a rule is about the first operation of what is wanted."""
    pairs = (
        (rule.operations, wanted.operations[:1]),
        (rule.api_groups, wanted.groups),
        (rule.resources, wanted.resources),
    )
    return all(_ANY in (given or ()) or set(asked) & set(given or ()) for given, asked in pairs)
