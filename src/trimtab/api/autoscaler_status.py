"""The status of an autoscaler as the recommender writes it, and its conditions alone."""

from collections.abc import Sequence

import msgspec

from trimtab.api.amounts import encode_amounts
from trimtab.api.encoding import Written, encode
from trimtab.api.times import format_time
from trimtab.core.autoscalers import Autoscaler, Condition, ContainerRecommendation
from trimtab.core.resources import Resources


class _Container(Written, frozen=True, kw_only=True):
    container_name: str = ""
    target: dict[str, str]
    lower_bound: dict[str, str] = msgspec.field(default_factory=dict)
    upper_bound: dict[str, str] = msgspec.field(default_factory=dict)
    uncapped_target: dict[str, str] = msgspec.field(default_factory=dict)


class _Recommendation(Written, frozen=True, kw_only=True):
    container_recommendations: list[_Container] = msgspec.field(default_factory=list)


class _Condition(Written, frozen=True, kw_only=True):
    type: str
    status: str
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class _Status(Written, frozen=True, kw_only=True):
    recommendation: _Recommendation | None = None
    conditions: list[_Condition] = msgspec.field(default_factory=list)
    observed_generation: int | None = None


def encode_status_patch(
    recommendation: Sequence[ContainerRecommendation] | None,
    conditions: Sequence[Condition],
    *,
    observed_generation: int | None = None,
) -> bytes:
    """The JSON Patch that makes this the whole status of an autoscaler.

    Without any container the recommendation is an empty object; None leaves it out.
    """
    status = _Status(
        recommendation=_write_recommendation(recommendation),
        conditions=[_write_condition(condition) for condition in conditions],
        observed_generation=observed_generation,
    )
    return encode([{"op": "add", "path": "/status", "value": status}])


def encode_conditions_patch(autoscaler: Autoscaler, conditions: Sequence[Condition]) -> bytes:
    """The JSON Patch that replaces the conditions of that very version of an autoscaler."""
    seen = {"op": "test", "path": "/metadata/resourceVersion", "value": autoscaler.resource_version}
    written = [_write_condition(condition) for condition in conditions]
    if autoscaler.recommendation is None and not autoscaler.conditions:
        # There may be no status at all, and nothing can be added to what is not there.
        status = _Status(conditions=written, observed_generation=autoscaler.observed_generation)
        return encode([seen, {"op": "add", "path": "/status", "value": status}])
    return encode([seen, {"op": "add", "path": "/status/conditions", "value": written}])


def _write_recommendation(
    recommendation: Sequence[ContainerRecommendation] | None,
) -> _Recommendation | None:
    if recommendation is None:
        return None
    return _Recommendation(container_recommendations=[_write_container(c) for c in recommendation])


def _write_container(container: ContainerRecommendation) -> _Container:
    return _Container(
        container_name=container.container_name,
        target=encode_amounts(container.target),
        lower_bound=_write_bound(container.lower_bound),
        upper_bound=_write_bound(container.upper_bound),
        uncapped_target=_write_bound(container.uncapped_target),
    )


def _write_bound(amounts: Resources | None) -> dict[str, str]:
    return {} if amounts is None else encode_amounts(amounts)


def _write_condition(condition: Condition) -> _Condition:
    changed_at = condition.last_transition_time
    return _Condition(
        type=condition.type,
        status=condition.status,
        last_transition_time=None if changed_at is None else format_time(changed_at),
        reason=condition.reason,
        message=condition.message,
    )
