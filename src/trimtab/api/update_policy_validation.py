"""Validation of `spec.updatePolicy`: the mode, its numbers and the eviction requirements."""

from collections.abc import Iterator
from typing import Final

from trimtab.api import autoscaler_wire as wire
from trimtab.api import field_errors
from trimtab.api.field_errors import FieldError
from trimtab.api.policy_validation import GATE_IS_OFF, at_least_one
from trimtab.core import bounds
from trimtab.core.autoscalers import ChangeDirection, UpdateMode
from trimtab.core.gates import FeatureGates
from trimtab.core.resources import BOTH

_PATH: Final = "spec.updatePolicy"
_REQUIREMENTS: Final = "evictionRequirements"


def update_policy_errors(
    new: wire.UpdatePolicy | None, old: wire.UpdatePolicy | None, gates: FeatureGates
) -> Iterator[FieldError]:
    """Every mistake in the update policy."""
    if new is None:
        return
    yield from _mode_errors(new.update_mode, gates)
    if new.min_replicas is not None and new.min_replicas <= 0:
        detail = "minReplicas has to be positive"
        yield field_errors.invalid(f"{_PATH}.minReplicas", new.min_replicas, detail)
    threshold, threshold_path = new.evict_after_oom_seconds, f"{_PATH}.evictAfterOOMSeconds"
    if threshold is not None and not gates.per_vpa_config:
        yield field_errors.forbidden(threshold_path, GATE_IS_OFF)
    else:
        yield from at_least_one(threshold_path, threshold)
    requirements = new.eviction_requirements or ()
    # What an update leaves as it was passes (D3): the original has let such lists in.
    if old is None or requirements != (old.eviction_requirements or ()):
        if len(requirements) > bounds.MAX_REQUIREMENTS:
            path = f"{_PATH}.{_REQUIREMENTS}"
            yield field_errors.too_many(path, len(requirements), bounds.MAX_REQUIREMENTS)
            return
        yield from _requirement_errors(requirements)
    if old is None or (new.update_mode, requirements) != (
        old.update_mode,
        old.eviction_requirements or (),
    ):
        yield from _direction_errors(new.update_mode, requirements)


def update_policy_warnings(policy: wire.UpdatePolicy | None, gates: FeatureGates) -> Iterator[str]:
    """Warnings about the deprecated mode, and about resources that are named twice."""
    if policy is None:
        return
    for index, requirement in enumerate(policy.eviction_requirements or ()):
        named = requirement.resources or ()
        for name in sorted({name for name in named if named.count(name) > 1} & {*BOTH}):
            path = f"{_PATH}.{_REQUIREMENTS}[{index}].resources"
            yield f"{path}: {name} is named more than once, which says no more than once"
    if policy.update_mode == UpdateMode.AUTO:
        yield (
            f'{_PATH}: "Auto" mode is deprecated and will be removed in a future API version.'
            f" Use explicit update modes like: [{' '.join(_offered_modes(gates))}]."
            " See https://github.com/kubernetes/autoscaler/issues/8424 for more details."
        )


def _offered_modes(gates: FeatureGates) -> list[str]:
    hidden = {UpdateMode.AUTO} if gates.upscale_only else {UpdateMode.AUTO, UpdateMode.UPSCALE_ONLY}
    return sorted(set(UpdateMode) - hidden)


def _mode_errors(mode: str | None, gates: FeatureGates) -> Iterator[FieldError]:
    path = f"{_PATH}.updateMode"
    if mode is None:
        yield field_errors.required(path, "updateMode is required if UpdatePolicy is used")
    elif mode not in list(UpdateMode):
        yield field_errors.not_supported(path, mode, _offered_modes(gates))
    elif (mode == UpdateMode.IN_PLACE and not gates.in_place) or (
        mode == UpdateMode.UPSCALE_ONLY and not gates.upscale_only
    ):
        # Both gates are named like their modes.
        yield field_errors.forbidden(
            path,
            f"in order to use UpdateMode {mode}, you must enable feature gate {mode}"
            " in the admission-controller args",
        )


def _direction_errors(
    mode: str | None, requirements: tuple[wire.Requirement, ...]
) -> Iterator[FieldError]:
    """Requirements that no change ever meets, so that no pod would be updated (D18)."""
    if mode != UpdateMode.UPSCALE_ONLY:
        return
    for index, requirement in enumerate(requirements):
        if requirement.change_requirement == ChangeDirection.TARGET_LOWER:
            yield field_errors.forbidden(
                f"{_PATH}.{_REQUIREMENTS}[{index}].changeRequirement",
                f"{ChangeDirection.TARGET_LOWER} is never met under {UpdateMode.UPSCALE_ONLY},"
                " which only raises requests: no pod would be updated",
            )


def _requirement_errors(requirements: tuple[wire.Requirement, ...]) -> Iterator[FieldError]:
    first_index: dict[str, int] = {}
    for index, requirement in enumerate(requirements):
        path = f"{_PATH}.{_REQUIREMENTS}[{index}].resources"
        if not requirement.resources:
            yield field_errors.required(path, "must name cpu, memory or both")
        count = len(requirement.resources or ())
        if count > bounds.MAX_REQUIREMENTS:
            yield field_errors.too_many(path, count, bounds.MAX_REQUIREMENTS)
            continue
        for position, name in enumerate(requirement.resources or ()):
            place = f"{path}[{position}]"
            first = first_index.setdefault(name, index)
            if name not in BOTH:
                yield field_errors.not_supported(place, name, BOTH)
            elif first != index:
                detail = f"{_REQUIREMENTS}[{first}] already has a requirement for this resource"
                yield field_errors.duplicate(place, name, detail)
