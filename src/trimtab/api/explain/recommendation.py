"""Working of an autoscaler's numbers, as JSON: from a recommender to the explain command.

The keys are an interface. Amounts are quantities, exact to the unit.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from trimtab.api.explain import held
from trimtab.api.explain.held import ShownHolding
from trimtab.api.wire import codec, times
from trimtab.api.wire.codec import Written
from trimtab.core.diagnosis import durations
from trimtab.core.explain import recommendation
from trimtab.core.explain.recommendation import (
    ContainerWorking,
    Number,
    NumberWorking,
    ResourceWorking,
)
from trimtab.core.model import autoscalers, estimation, quantities
from trimtab.core.model.autoscalers import Autoscaler, ContainerRecommendation
from trimtab.core.model.estimation import Estimator
from trimtab.core.model.recommendation import RecommendationSettings, wants_integer_cpu
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.recommendation.steps import StepKind

_SHORT: Final = {
    Number.LOWER_BOUND: "lower",
    Number.TARGET: "target",
    Number.UPPER_BOUND: "upper",
}
"""In the order of presentation."""
_MUCH: Final = 1e6


@dataclass(frozen=True, slots=True)
class StepRule:
    """Description of a step; `applies` is False if the step does nothing to these numbers."""

    text: str
    applies: bool = True


@dataclass(frozen=True, slots=True)
class _Subject:
    """The resource that a rule describes, with its container and settings."""

    autoscaler: Autoscaler
    container: ContainerWorking
    resource: ResourceWorking
    settings: RecommendationSettings

    def show(self, amount: int) -> str:
        return quantities.format_amount(self.resource.resource, amount)


def tell_rules(
    autoscaler: Autoscaler,
    container: ContainerWorking,
    resource: ResourceWorking,
    settings: RecommendationSettings,
) -> Mapping[StepKind, StepRule]:
    """Return the rule of each step of a resource's numbers."""
    subject = _Subject(autoscaler, container, resource, settings)
    return {kind: tell(subject) for kind, tell in _RULES.items()}


def _percentile(subject: _Subject) -> StepRule:
    percentiles = {each.number: each.percentile for each in subject.resource.numbers}
    parts = [f"{percentiles[number]:.3g} ({short})" for number, short in _SHORT.items()]
    unit = "samples" if subject.resource.resource is Resource.CPU else "peaks"
    return StepRule(f"what these parts of the weighed {unit} stay below: {', '.join(parts)}")


def _margin(subject: _Subject) -> StepRule:
    return StepRule(f"{100 * subject.settings.margin_fraction:.3g} % more, to be safe")


def _confidence(subject: _Subject) -> StepRule:
    resource, container = subject.resource, subject.container
    factors = {each.number: each.confidence_factor for each in resource.numbers}
    lower, upper = factors[Number.LOWER_BOUND], factors[Number.UPPER_BOUND]
    interval = subject.settings.of(resource.resource).confidence_interval
    shown = f"{upper:.4g}" if upper < _MUCH else "without end"
    return StepRule(
        f"confidence {resource.confidence:.3g} by {container.sample_count} samples (1 with one a "
        f"minute for {durations.brief(interval)}): lower times {lower:.4g}, upper times {shown}"
    )


def _is_held(subject: _Subject) -> bool:
    annotations, default = subject.autoscaler.annotations, subject.settings.estimator
    return estimation.chosen_estimator(annotations, default) is Estimator.COST


def _held(subject: _Subject) -> StepRule:
    if not _is_held(subject):
        return StepRule("the estimator `percentile` holds no targets", applies=False)
    return StepRule("the target that the estimator `cost` holds, and bounds close to it")


def _pod_minimum(subject: _Subject) -> StepRule:
    resource = subject.resource
    whole = subject.settings.of(resource.resource).pod_floor
    if resource.least is not None and resource.floor == resource.least:
        return StepRule(f"at least {subject.show(resource.floor)}: minAllowed allows so little")
    count = subject.container.live_containers
    among = "" if count <= 1 else f" for {count} containers"
    return StepRule(
        f"at least {subject.show(resource.floor)}: a pod's minimum is {subject.show(whole)}{among}"
    )


def _oom_kills(subject: _Subject) -> StepRule:
    need = subject.resource.oom_need
    if not need and _is_held(subject):
        return StepRule("the held target answers kills by itself", applies=False)
    if not need:
        return StepRule("no OOM kill is remembered", applies=False)
    return StepRule(f"an OOM kill showed that {subject.show(need)} are needed")


def _rounding(subject: _Subject) -> StepRule:
    resource, settings = subject.resource.resource, subject.settings
    multiple = settings.of(resource).rounding
    if resource is Resource.MEMORY and settings.humanize_memory:
        return StepRule("to two decimals of its unit")
    if multiple <= 1:
        return StepRule("nothing is rounded", applies=False)
    return StepRule(f"up to a multiple of {subject.show(multiple)}")


def _integer_cpu(subject: _Subject) -> StepRule:
    asked = wants_integer_cpu(subject.autoscaler.annotations, subject.container.name)
    is_cpu = subject.resource.resource is Resource.CPU
    if not (is_cpu and asked and subject.settings.integer_cpu):
        return StepRule("whole cores are not asked for", applies=False)
    return StepRule("up to whole cores, as an annotation of the autoscaler asks")


def _min_allowed(subject: _Subject) -> StepRule:
    least = subject.resource.least
    if least is None:
        return StepRule("the policy has no minAllowed", applies=False)
    return StepRule(f"at least minAllowed of the policy, {subject.show(least)}")


def _max_allowed(subject: _Subject) -> StepRule:
    most, resource = subject.resource.most, subject.resource.resource
    if most is None:
        return StepRule("the policy has no maxAllowed", applies=False)
    policy = autoscalers.policy_for(subject.autoscaler.policies, subject.container.name)
    if policy is not None and resource in policy.max_allowed:
        return StepRule(f"at most maxAllowed of the policy, {subject.show(most)}")
    flag = f"--container-recommendation-max-allowed-{resource}"
    return StepRule(f"at most {subject.show(most)}, as {flag} says")


def _close_bounds(subject: _Subject) -> StepRule:
    if not _is_held(subject):
        return StepRule("the estimator `percentile` holds no targets", applies=False)
    distance = 100 * subject.settings.cost.bound_fraction
    text = f"{distance:.3g} % around a target that rounding or caps moved, so that pods follow it"
    return StepRule(text, applies=False)


def _relearning(_: _Subject) -> StepRule:
    return StepRule(
        "a history was lost: until there is one again, nothing falls below what was published"
    )


_RULES: Final[Mapping[StepKind, Callable[[_Subject], StepRule]]] = {
    StepKind.PERCENTILE: _percentile,
    StepKind.MARGIN: _margin,
    StepKind.CONFIDENCE: _confidence,
    StepKind.HELD: _held,
    StepKind.POD_MINIMUM: _pod_minimum,
    StepKind.OOM_KILLS: _oom_kills,
    StepKind.ROUNDING: _rounding,
    StepKind.INTEGER_CPU: _integer_cpu,
    StepKind.MIN_ALLOWED: _min_allowed,
    StepKind.MAX_ALLOWED: _max_allowed,
    StepKind.CLOSE_BOUNDS: _close_bounds,
    StepKind.RELEARNING: _relearning,
}


class NumbersFrom(StrEnum):
    """Origin of the histories."""

    RECOMMENDER = "recommender"
    """The running recommender, with its current memory."""
    CHECKPOINTS = "checkpoints"
    """The checkpoints, as a recommender that starts now would load them."""


class ShownBucket(Written, frozen=True, kw_only=True):
    """A bucket of a histogram."""

    index: int
    start: str
    end: str


class ShownNumber(Written, frozen=True, kw_only=True):
    """A number and its inputs."""

    percentile: float
    bucket: ShownBucket | None = None
    confidence_factor: float | None = None
    """None if the factor is infinite."""
    value: str
    published: str | None = None
    """The number in the status of the autoscaler."""


class Transition(Written, frozen=True, kw_only=True):
    """Value of a number before and after a step."""

    before: str | None = None
    after: str


class ShownStep(Written, frozen=True, kw_only=True):
    """One step in the working of all numbers of a resource."""

    step: str
    rule: str
    applies: bool = False
    """False if the step does nothing."""
    target: Transition
    lower_bound: Transition
    upper_bound: Transition


class ShownResource(Written, frozen=True, kw_only=True):
    """Working of a resource's numbers, or the reason for their absence."""

    resource: str
    absence: str | None = None
    confidence: float | None = None
    target: ShownNumber | None = None
    lower_bound: ShownNumber | None = None
    upper_bound: ShownNumber | None = None
    uncapped_target: str | None = None
    by_percentile: str | None = None
    """The target by the estimator `percentile`, where another one is in use."""
    held: ShownHolding | None = None
    steps: Sequence[ShownStep] = ()


class ShownContainer(Written, frozen=True, kw_only=True):
    """Working of a container's numbers."""

    name: str
    samples: int
    first_sample: str | None = None
    last_sample: str | None = None
    span: str | None = None
    histories: int
    resources: Sequence[ShownResource]


class NumbersPage(Written, frozen=True, kw_only=True):
    """Working of all numbers of an autoscaler."""

    namespace: str
    autoscaler: str
    source: str
    at: str
    """Time of the computation."""
    saved_at: str | None = None
    """Time at which the oldest checkpoint was written; None without checkpoints."""
    has_default_settings: bool = False
    """True if the flags of the recommender are unknown, so that defaults apply."""
    containers: Sequence[ShownContainer] = ()
    switched_off: Sequence[str] = ()
    """Containers that the policy excludes from scaling."""
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of the numbers."""

    source: NumbersFrom
    at: datetime
    saved_at: datetime | None = None
    has_default_settings: bool = False
    remarks: tuple[str, ...] = field(default=())


_DECODER: Final = msgspec.json.Decoder(NumbersPage)


def decode_numbers(data: bytes) -> NumbersPage:
    """Return the page in the JSON; raises DecodeError."""
    return codec.decode(_DECODER, data)


def show_numbers(
    autoscaler: Autoscaler,
    workings: Sequence[ContainerWorking],
    settings: RecommendationSettings,
    origin: Origin,
) -> NumbersPage:
    """Return the page of one autoscaler."""
    published = {one.container_name: one for one in autoscaler.recommendation or ()}
    known = {*published, *(each.name for each in workings)}
    return NumbersPage(
        namespace=autoscaler.namespace,
        autoscaler=autoscaler.name,
        source=origin.source.value,
        at=times.format_time(origin.at),
        saved_at=_time(origin.saved_at),
        has_default_settings=origin.has_default_settings,
        containers=[
            _container(each, autoscaler, settings, published.get(each.name)) for each in workings
        ],
        switched_off=sorted(
            name for name in known if not autoscalers.scales(autoscaler.policies, name)
        ),
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
        span=None if first is None or last is None else times.format_duration(last - first),
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
    rules: Mapping[StepKind, StepRule],
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
        by_percentile=_amount(working.resource, working.by_percentile),
        held=held.show_held(working.held),
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
        value=quantities.format_amount(resource, working.amount),
        published=_amount(resource, said.get(resource)),
    )


def _bucket(
    bucket: recommendation.ExplainedBucket | None, resource: Resource
) -> ShownBucket | None:
    if bucket is None:
        return None
    start, end = (
        quantities.format_amount(resource, bucket.start),
        quantities.format_amount(resource, bucket.end),
    )
    return ShownBucket(index=bucket.index, start=start, end=end)


def _steps(working: ResourceWorking, rules: Mapping[StepKind, StepRule]) -> Sequence[ShownStep]:
    resource = working.resource
    by_number = {each.number: each.steps for each in working.numbers}
    steps = zip(*(by_number[number] for number in Number), strict=True)

    def transition(step: recommendation.ExplainedStep) -> Transition:
        return Transition(
            before=_amount(resource, step.before),
            after=quantities.format_amount(resource, step.after),
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
    return None if amount is None else quantities.format_amount(resource, amount)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else times.format_time(moment)
