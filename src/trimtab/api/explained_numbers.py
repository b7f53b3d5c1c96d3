"""How the numbers of an autoscaler came about, as JSON: written by who knows it, read by who asks.

The keys are an interface. Amounts are quantities, exact to the unit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from trimtab.api import decoding
from trimtab.api.encoding import Written
from trimtab.api.step_words import Rule, tell_rules
from trimtab.api.times import format_duration, format_time
from trimtab.core import explanation
from trimtab.core.autoscalers import Autoscaler, ContainerRecommendation, scales
from trimtab.core.explanation import ContainerWorking, Number, NumberWorking, ResourceWorking
from trimtab.core.quantities import format_amount
from trimtab.core.recommendation import RecommendationSettings
from trimtab.core.records import dataclass
from trimtab.core.resources import Resource, Resources
from trimtab.core.working import StepKind


class NumbersFrom(StrEnum):
    """Where histories come from."""

    RECOMMENDER = "recommender"
    """The one that runs: all that it knows now."""
    CHECKPOINTS = "checkpoints"
    """What one would know that started now."""


class ShownBucket(Written, frozen=True, kw_only=True):
    """A bucket of a histogram."""

    index: int
    start: str
    end: str


class ShownNumber(Written, frozen=True, kw_only=True):
    """What a number is made from, and what it came to."""

    percentile: float
    bucket: ShownBucket | None = None
    confidence_factor: float | None = None
    """None where there is no end to it."""
    value: str
    published: str | None = None
    """What the status of the autoscaler says."""


class Transition(Written, frozen=True, kw_only=True):
    """What a step made of a number."""

    before: str | None = None
    after: str


class ShownStep(Written, frozen=True, kw_only=True):
    """One step of the working of all numbers of a resource."""

    step: str
    rule: str
    applies: bool = False
    """Whether there is anything to be done in it."""
    target: Transition
    lower_bound: Transition
    upper_bound: Transition


class ShownResource(Written, frozen=True, kw_only=True):
    """How the numbers of a resource came about, or why there are none."""

    resource: str
    absence: str | None = None
    confidence: float | None = None
    target: ShownNumber | None = None
    lower_bound: ShownNumber | None = None
    upper_bound: ShownNumber | None = None
    uncapped_target: str | None = None
    steps: Sequence[ShownStep] = ()


class ShownContainer(Written, frozen=True, kw_only=True):
    """How the numbers of a container came about."""

    name: str
    samples: int
    first_sample: str | None = None
    last_sample: str | None = None
    span: str | None = None
    histories: int
    resources: Sequence[ShownResource]


class NumbersPage(Written, frozen=True, kw_only=True):
    """How all numbers of an autoscaler came about."""

    namespace: str
    autoscaler: str
    source: str
    at: str
    """When it was reckoned."""
    saved_at: str | None = None
    """Of checkpoints when the oldest was written."""
    has_default_settings: bool = False
    """Whether the flags of the recommender are not known."""
    containers: Sequence[ShownContainer] = ()
    switched_off: Sequence[str] = ()
    """Containers that the policy leaves alone."""
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where numbers come from."""

    source: NumbersFrom
    at: datetime
    saved_at: datetime | None = None
    has_default_settings: bool = False
    remarks: tuple[str, ...] = field(default=())


_DECODER: Final = msgspec.json.Decoder(NumbersPage)


def decode_numbers(data: bytes) -> NumbersPage:
    """The page that somebody wrote; a DecodeError if it is none."""
    return decoding.decode(_DECODER, data)


def show_numbers(
    autoscaler: Autoscaler,
    workings: Sequence[ContainerWorking],
    settings: RecommendationSettings,
    origin: Origin,
) -> NumbersPage:
    """The page of one autoscaler."""
    published = {one.container_name: one for one in autoscaler.recommendation or ()}
    known = {*published, *(each.name for each in workings)}
    return NumbersPage(
        namespace=autoscaler.namespace,
        autoscaler=autoscaler.name,
        source=origin.source.value,
        at=format_time(origin.at),
        saved_at=_time(origin.saved_at),
        has_default_settings=origin.has_default_settings,
        containers=[
            _container(each, autoscaler, settings, published.get(each.name)) for each in workings
        ],
        switched_off=sorted(name for name in known if not scales(autoscaler.policies, name)),
        remarks=origin.remarks,
    )


def _container(
    working: ContainerWorking,
    autoscaler: Autoscaler,
    settings: RecommendationSettings,
    published: ContainerRecommendation | None,
) -> ShownContainer:
    first, last = working.first_sample, working.last_sample
    return ShownContainer(
        name=working.name,
        samples=working.sample_count,
        first_sample=_time(first),
        last_sample=_time(last),
        span=None if first is None or last is None else format_duration(last - first),
        histories=working.history_count,
        resources=[
            _resource(each, tell_rules(autoscaler, working, each, settings), published)
            if each.absence is None
            else ShownResource(resource=each.resource.value, absence=each.absence.value)
            for each in working.resources
        ],
    )


def _resource(
    working: ResourceWorking,
    rules: Mapping[StepKind, Rule],
    published: ContainerRecommendation | None,
) -> ShownResource:
    said = _published(published)
    shown = {
        each.number: _number(each, working.resource, said[each.number]) for each in working.numbers
    }
    return ShownResource(
        resource=working.resource.value,
        confidence=round(working.confidence, 6),
        target=shown[Number.TARGET],
        lower_bound=shown[Number.LOWER_BOUND],
        upper_bound=shown[Number.UPPER_BOUND],
        uncapped_target=_amount(working.resource, working.uncapped),
        steps=list(_steps(working, rules)),
    )


def _published(said: ContainerRecommendation | None) -> Mapping[Number, Resources]:
    told = said or ContainerRecommendation("", {})
    return {
        Number.TARGET: told.target,
        Number.LOWER_BOUND: told.lower_bound or {},
        Number.UPPER_BOUND: told.upper_bound or {},
    }


def _number(working: NumberWorking, resource: Resource, said: Resources) -> ShownNumber:
    factor = working.confidence_factor
    return ShownNumber(
        percentile=working.percentile,
        bucket=_bucket(working.bucket, resource),
        confidence_factor=round(factor, 6) if math.isfinite(factor) else None,
        value=format_amount(resource, working.amount),
        published=_amount(resource, said.get(resource)),
    )


def _bucket(bucket: explanation.Bucket | None, resource: Resource) -> ShownBucket | None:
    if bucket is None:
        return None
    start, end = format_amount(resource, bucket.start), format_amount(resource, bucket.end)
    return ShownBucket(index=bucket.index, start=start, end=end)


def _steps(working: ResourceWorking, rules: Mapping[StepKind, Rule]) -> Sequence[ShownStep]:
    resource = working.resource
    by_number = {each.number: each.steps for each in working.numbers}
    steps = zip(*(by_number[number] for number in Number), strict=True)

    def transition(step: explanation.Step) -> Transition:
        return Transition(
            before=_amount(resource, step.before), after=format_amount(resource, step.after)
        )

    return [
        ShownStep(
            step=target.kind.value,
            rule=rules[target.kind].text,
            applies=rules[target.kind].applies,
            target=transition(target),
            lower_bound=transition(lower),
            upper_bound=transition(upper),
        )
        for target, lower, upper in steps
    ]


def _amount(resource: Resource, amount: int | None) -> str | None:
    return None if amount is None else format_amount(resource, amount)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)
