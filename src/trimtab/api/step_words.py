"""The rule of each step of a number, in words."""

from collections.abc import Callable, Mapping
from typing import Final

from trimtab.core.autoscalers import Autoscaler, policy_for
from trimtab.core.explanation import ContainerWorking, Number, ResourceWorking
from trimtab.core.quantities import format_amount
from trimtab.core.recommendation import RecommendationSettings, wants_integer_cpu
from trimtab.core.records import dataclass
from trimtab.core.resources import Resource
from trimtab.core.spans import brief
from trimtab.core.working import StepKind

_SHORT: Final = {
    Number.LOWER_BOUND: "lower",
    Number.TARGET: "target",
    Number.UPPER_BOUND: "upper",
}
"""In the order in which people are shown them."""
_MUCH: Final = 1e6


@dataclass(frozen=True, slots=True)
class Rule:
    """What is done in a step, and whether it is done to this number at all."""

    text: str
    applies: bool = True


@dataclass(frozen=True, slots=True)
class _Subject:
    """What a rule is told about."""

    autoscaler: Autoscaler
    container: ContainerWorking
    resource: ResourceWorking
    settings: RecommendationSettings

    def show(self, amount: int) -> str:
        return format_amount(self.resource.resource, amount)


def tell_rules(
    autoscaler: Autoscaler,
    container: ContainerWorking,
    resource: ResourceWorking,
    settings: RecommendationSettings,
) -> Mapping[StepKind, Rule]:
    """The rule of each step of the numbers of a resource."""
    subject = _Subject(autoscaler, container, resource, settings)
    return {kind: tell(subject) for kind, tell in _RULES.items()}


def _percentile(subject: _Subject) -> Rule:
    percentiles = {each.number: each.percentile for each in subject.resource.numbers}
    parts = [f"{percentiles[number]:.3g} ({short})" for number, short in _SHORT.items()]
    unit = "samples" if subject.resource.resource is Resource.CPU else "peaks"
    return Rule(f"what these parts of the weighed {unit} stay below: {', '.join(parts)}")


def _margin(subject: _Subject) -> Rule:
    return Rule(f"{100 * subject.settings.margin_fraction:.3g} % more, to be safe")


def _confidence(subject: _Subject) -> Rule:
    resource, container = subject.resource, subject.container
    factors = {each.number: each.confidence_factor for each in resource.numbers}
    lower, upper = factors[Number.LOWER_BOUND], factors[Number.UPPER_BOUND]
    interval = subject.settings.of(resource.resource).confidence_interval
    shown = f"{upper:.4g}" if upper < _MUCH else "without end"
    return Rule(
        f"confidence {resource.confidence:.3g} by {container.sample_count} samples (1 with one a "
        f"minute for {brief(interval)}): lower times {lower:.4g}, upper times {shown}"
    )


def _pod_minimum(subject: _Subject) -> Rule:
    resource = subject.resource
    whole = subject.settings.of(resource.resource).pod_floor
    if resource.least is not None and resource.floor == resource.least:
        return Rule(f"at least {subject.show(resource.floor)}: minAllowed allows so little")
    count = subject.container.live_containers
    among = "" if count <= 1 else f" for {count} containers"
    return Rule(
        f"at least {subject.show(resource.floor)}: a pod's minimum is {subject.show(whole)}{among}"
    )


def _oom_kills(subject: _Subject) -> Rule:
    need = subject.resource.oom_need
    if not need:
        return Rule("no kill for want of memory is remembered", applies=False)
    return Rule(f"a kill for want of memory showed that {subject.show(need)} are needed")


def _rounding(subject: _Subject) -> Rule:
    resource, settings = subject.resource.resource, subject.settings
    multiple = settings.of(resource).rounding
    if resource is Resource.MEMORY and settings.humanize_memory:
        return Rule("to two decimals of its unit")
    if multiple <= 1:
        return Rule("nothing is rounded", applies=False)
    return Rule(f"up to a multiple of {subject.show(multiple)}")


def _integer_cpu(subject: _Subject) -> Rule:
    asked = wants_integer_cpu(subject.autoscaler.annotations, subject.container.name)
    is_cpu = subject.resource.resource is Resource.CPU
    if not (is_cpu and asked and subject.settings.integer_cpu):
        return Rule("whole cores are not asked for", applies=False)
    return Rule("up to whole cores, as an annotation of the autoscaler asks")


def _min_allowed(subject: _Subject) -> Rule:
    least = subject.resource.least
    if least is None:
        return Rule("the policy has no minAllowed", applies=False)
    return Rule(f"at least minAllowed of the policy, {subject.show(least)}")


def _max_allowed(subject: _Subject) -> Rule:
    most, resource = subject.resource.most, subject.resource.resource
    if most is None:
        return Rule("the policy has no maxAllowed", applies=False)
    policy = policy_for(subject.autoscaler.policies, subject.container.name)
    if policy is not None and resource in policy.max_allowed:
        return Rule(f"at most maxAllowed of the policy, {subject.show(most)}")
    flag = f"--container-recommendation-max-allowed-{resource}"
    return Rule(f"at most {subject.show(most)}, as {flag} says")


def _relearning(_: _Subject) -> Rule:
    return Rule("a history was lost: until there is one again, nothing falls below what was said")


_RULES: Final[Mapping[StepKind, Callable[[_Subject], Rule]]] = {
    StepKind.PERCENTILE: _percentile,
    StepKind.MARGIN: _margin,
    StepKind.CONFIDENCE: _confidence,
    StepKind.POD_MINIMUM: _pod_minimum,
    StepKind.OOM_KILLS: _oom_kills,
    StepKind.ROUNDING: _rounding,
    StepKind.INTEGER_CPU: _integer_cpu,
    StepKind.MIN_ALLOWED: _min_allowed,
    StepKind.MAX_ALLOWED: _max_allowed,
    StepKind.RELEARNING: _relearning,
}
