"""Validation of `spec.resourcePolicy.containerPolicies`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from trimtab.api.kinds import autoscaler_wire as wire
from trimtab.api.validation.feature_gates import container_policies
from trimtab.api.validation.startup_boost import boost_errors, boost_warnings
from trimtab.api.wire import field_errors
from trimtab.api.wire import quantities as wire_quantities
from trimtab.api.wire.field_errors import FieldError
from trimtab.api.wire.quantities import NEGATIVE
from trimtab.core.model import quantities
from trimtab.core.model import size_bounds as bounds
from trimtab.core.model.autoscalers import EVERY, ContainerMode, ControlledValues
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.quantities import Quantity
from trimtab.core.model.resources import BOTH, Resource

_PATH: Final = "spec.resourcePolicy.containerPolicies"
_NO_POLICY: Final = wire.ContainerPolicy()
_THOUSANDTHS: Final = 1000
"""The original reads the bump-up ratio in thousandths, rounded up."""
_UNITS: Final = {Resource.CPU: "milli CPUs", Resource.MEMORY: "bytes"}
GATE_IS_OFF: Final = "not supported when feature flag PerVPAConfig is disabled"


def policy_errors(new: wire.Spec, old: wire.Spec, gates: FeatureGates) -> Iterator[FieldError]:
    """Yield every mistake in the container policies."""
    count = len(container_policies(new))
    if count > bounds.MAX_POLICIES:
        # One error instead of thousands; an unchanged list passes without further checks.
        if container_policies(new) != container_policies(old):
            yield field_errors.too_many(_PATH, count, bounds.MAX_POLICIES)
        return
    known = _controlled_resources(old)
    old_policies = {policy.container_name: policy for policy in container_policies(old)}
    for index, policy in enumerate(container_policies(new)):
        path = f"{_PATH}[{index}]"
        before = old_policies.get(policy.container_name, _NO_POLICY)
        if found := list(_size_errors(policy, before, path)):
            yield from found
            continue
        yield from _choice_errors(policy, path)
        yield from _allowed_errors(policy, path)
        yield from _negative_errors(policy, before, path)
        for place, name in _uncontrollable(policy, path):
            if name not in known:
                yield field_errors.not_supported(place, name, BOTH)
        yield from _own_config_errors(policy, path, gate=gates.per_vpa_config)
        yield from boost_errors(
            policy.startup_boost,
            before.startup_boost,
            f"{path}.startupBoost",
            gate=gates.cpu_startup_boost,
        )


def policy_warnings(new: wire.Spec, old: wire.Spec) -> Iterator[str]:
    """Yield warnings about hidden policies, unsupported resources kept from before, and boosts."""
    if len(container_policies(new)) > bounds.MAX_POLICIES:
        return
    yield from _hidden_warnings(container_policies(new))
    known = _controlled_resources(old)
    for index, policy in enumerate(container_policies(new)):
        yield from boost_warnings(policy.startup_boost, f"{_PATH}[{index}].startupBoost")
        for place, name in _uncontrollable(policy, f"{_PATH}[{index}]"):
            if name in known:
                yield (
                    f"{place}: unsupported value {field_errors.quote(name)} is allowed only because"
                    ' it is present in the existing VPA object; supported values: "cpu", "memory"'
                )


def _hidden_warnings(policies: Sequence[wire.ContainerPolicy]) -> Iterator[str]:
    """Warn about each policy that another one for the same container hides."""
    # The same lookup order as in the original.
    first = {policy.container_name: index for index, policy in reversed([*enumerate(policies)])}
    last = {policy.container_name: index for index, policy in enumerate(policies)}
    for index, policy in enumerate(policies):
        name = policy.container_name
        counting, which = (last, "last") if name == EVERY else (first, "first")
        if name and counting[name] != index:
            yield (
                f"{_PATH}[{index}]: has no effect: containerPolicies[{counting[name]}] names"
                f" {field_errors.quote(name)} too, and the {which} one counts"
            )


def _size_errors(
    policy: wire.ContainerPolicy, before: wire.ContainerPolicy, path: str
) -> Iterator[FieldError]:
    """Yield errors for lists and maps beyond their bounds; an unchanged policy passes."""
    if policy == before:
        return
    sizes = {
        "controlledResources": policy.controlled_resources,
        "minAllowed": policy.min_allowed,
        "maxAllowed": policy.max_allowed,
    }
    for name, given in sizes.items():
        if given is not None and len(given) > bounds.MAX_RESOURCES:
            yield field_errors.too_many(f"{path}.{name}", len(given), bounds.MAX_RESOURCES)


def _controlled_resources(spec: wire.Spec) -> set[str]:
    return {
        name for policy in container_policies(spec) for name in policy.controlled_resources or ()
    }


def _uncontrollable(policy: wire.ContainerPolicy, path: str) -> Iterator[tuple[str, str]]:
    for index, name in enumerate(policy.controlled_resources or ()):
        if name not in BOTH:
            yield f"{path}.controlledResources[{index}]", name


def _choice_errors(policy: wire.ContainerPolicy, path: str) -> Iterator[FieldError]:
    if not policy.container_name:
        yield field_errors.required(f"{path}.containerName")
    if policy.mode is not None and policy.mode not in list(ContainerMode):
        yield field_errors.not_supported(f"{path}.mode", policy.mode, ContainerMode)
    both_values = policy.controlled_values == ControlledValues.REQUESTS_AND_LIMITS
    if policy.mode == ContainerMode.OFF and both_values:
        yield field_errors.forbidden(
            f"{path}.controlledValues",
            "controlledValues shouldn't be specified if container scaling mode is off",
        )


def _allowed_errors(policy: wire.ContainerPolicy, path: str) -> Iterator[FieldError]:
    lowest, unreadable_min = _read_all(policy.min_allowed, f"{path}.minAllowed")
    highest, unreadable_max = _read_all(policy.max_allowed, f"{path}.maxAllowed")
    yield from unreadable_min
    yield from unreadable_max
    yield from _coarse_errors(lowest, f"{path}.minAllowed")
    yield from _coarse_errors(highest, f"{path}.maxAllowed")
    for name in sorted(lowest.keys() & highest.keys()):
        if highest[name] < lowest[name]:
            detail = f'max resource for {name} is lower than min of "{lowest[name]}"'
            yield field_errors.invalid(f"{path}.maxAllowed[{name}]", highest[name], detail)


def _negative_errors(
    policy: wire.ContainerPolicy, before: wire.ContainerPolicy, path: str
) -> Iterator[FieldError]:
    """Yield errors for new bounds below zero, which the original lets reach pods."""
    pairs = {
        f"{path}.minAllowed": (policy.min_allowed, before.min_allowed),
        f"{path}.maxAllowed": (policy.max_allowed, before.max_allowed),
    }
    for place, (given, stored) in pairs.items():
        bounds, known = _read_all(given, place)[0], _read_all(stored, place)[0]
        for resource in BOTH:
            bound = bounds.get(resource)
            if bound is not None and bound.sign < 0 and bound != known.get(resource):
                yield field_errors.invalid(f"{place}[{resource}]", bound, NEGATIVE)


def _read_all(
    given: Mapping[str, msgspec.Raw] | None, path: str
) -> tuple[dict[str, Quantity], list[FieldError]]:
    read = {
        name: wire_quantities.read_quantity(raw, f"{path}[{name}]")
        for name, raw in (given or {}).items()
    }
    return (
        {name: result for name, result in read.items() if isinstance(result, Quantity)},
        [result for result in read.values() if isinstance(result, FieldError)],
    )


def _coarse_errors(given: Mapping[str, Quantity], path: str) -> Iterator[FieldError]:
    for resource in BOTH:
        quantity = given.get(resource)
        if quantity is not None and not quantities.is_whole_amount(resource, quantity):
            detail = f"must be a whole number of {_UNITS[resource]}"
            yield field_errors.invalid(f"{path}[{resource}]", quantity, detail)


def _own_config_errors(
    policy: wire.ContainerPolicy, path: str, *, gate: bool
) -> Iterator[FieldError]:
    numbers = {
        f"{path}.memoryAggregationIntervalSeconds": policy.memory_aggregation_interval_seconds,
        f"{path}.memoryAggregationIntervalCount": policy.memory_aggregation_interval_count,
    }
    bump_ups = {
        f"{path}.oomBumpUpRatio": policy.oom_bump_up_ratio,
        f"{path}.oomMinBumpUp": policy.oom_min_bump_up,
    }
    given = [place for place, raw in bump_ups.items() if wire_quantities.is_given(raw)]
    given += [place for place, number in numbers.items() if number is not None]
    if not gate:
        yield from (field_errors.forbidden(place, GATE_IS_OFF) for place in given)
        return
    yield from _ratio_errors(policy.oom_bump_up_ratio, f"{path}.oomBumpUpRatio")
    yield from _bump_up_errors(policy.oom_min_bump_up, f"{path}.oomMinBumpUp")
    for place, number in numbers.items():
        yield from at_least_one(place, number)


def at_least_one(path: str, number: int | None) -> Iterator[FieldError]:
    """Yield an error if the number is given and below one."""
    if number is not None and number < 1:
        yield field_errors.invalid(path, number, "must be greater than or equal to 1")


def _ratio_errors(raw: msgspec.Raw, path: str) -> Iterator[FieldError]:
    ratio = wire_quantities.read_quantity(raw, path) if wire_quantities.is_given(raw) else None
    if isinstance(ratio, FieldError):
        yield ratio
    elif ratio is not None and ratio.milli() < _THOUSANDTHS:
        detail = "must be greater than or equal to 1.0"
        yield field_errors.invalid(path, ratio.milli() / _THOUSANDTHS, detail)


def _bump_up_errors(raw: msgspec.Raw, path: str) -> Iterator[FieldError]:
    bump_up = wire_quantities.read_quantity(raw, path) if wire_quantities.is_given(raw) else None
    if isinstance(bump_up, FieldError):
        yield bump_up
    elif bump_up is not None and bump_up.whole() < 0:
        yield field_errors.invalid(path, bump_up.whole(), NEGATIVE)
