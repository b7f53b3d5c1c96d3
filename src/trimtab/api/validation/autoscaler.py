"""The verdict on an autoscaler in a review: all errors, warnings and the default.

All errors are found at once. Rules that the original lacks skip fields that an update leaves
unchanged, so that objects from the original stay editable. An update that leaves the whole spec
unchanged is never refused: labels can always be changed and finalizers removed.

The API server checks the schema of the CRD. Where there is no API server,
`trimtab.api.crds.schema_check` does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.api.kinds import autoscaler_wire as wire
from trimtab.api.validation import estimator, feature_gates
from trimtab.api.validation.container_policies import (
    GATE_IS_OFF,
    at_least_one,
    policy_errors,
    policy_warnings,
)
from trimtab.api.validation.selectors import Sibling, overlaps, selector_errors, selector_warnings
from trimtab.api.validation.startup_boost import boost_errors, boost_warnings
from trimtab.api.wire import field_errors, metadata
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.field_errors import ErrorType, FieldError
from trimtab.api.wire.metadata import NO_METADATA
from trimtab.core.model import size_bounds
from trimtab.core.model.autoscalers import ChangeDirection, UpdateMode
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.json_patch import Add, Patch
from trimtab.core.model.resources import BOTH

_PATH: Final = "spec.updatePolicy"
_REQUIREMENTS: Final = "evictionRequirements"


def update_policy_errors(
    new: wire.UpdatePolicy | None, old: wire.UpdatePolicy | None, gates: FeatureGates
) -> Iterator[FieldError]:
    """Yield every mistake in the update policy."""
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
    # An unchanged list passes (D3): the original accepts such lists.
    if old is None or requirements != (old.eviction_requirements or ()):
        if len(requirements) > size_bounds.MAX_REQUIREMENTS:
            path = f"{_PATH}.{_REQUIREMENTS}"
            yield field_errors.too_many(path, len(requirements), size_bounds.MAX_REQUIREMENTS)
            return
        yield from _requirement_errors(requirements)
    if old is None or (new.update_mode, requirements) != (
        old.update_mode,
        old.eviction_requirements or (),
    ):
        yield from _direction_errors(new.update_mode, requirements)


def update_policy_warnings(policy: wire.UpdatePolicy | None, gates: FeatureGates) -> Iterator[str]:
    """Yield warnings about the deprecated mode, and about resources that are named twice."""
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
        # Both gates have the names of their modes.
        yield field_errors.forbidden(
            path,
            f"in order to use UpdateMode {mode}, you must enable feature gate {mode}"
            " in the admission-controller args",
        )


def _direction_errors(
    mode: str | None, requirements: tuple[wire.Requirement, ...]
) -> Iterator[FieldError]:
    """Yield errors for requirements that no change can meet, so that no pod would change (D18)."""
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
        if count > size_bounds.MAX_REQUIREMENTS:
            yield field_errors.too_many(path, count, size_bounds.MAX_REQUIREMENTS)
            continue
        for position, name in enumerate(requirement.resources or ()):
            place = f"{path}[{position}]"
            first = first_index.setdefault(name, index)
            if name not in BOTH:
                yield field_errors.not_supported(place, name, BOTH)
            elif first != index:
                detail = f"{_REQUIREMENTS}[{first}] already has a requirement for this resource"
                yield field_errors.duplicate(place, name, detail)


_MAX_RECOMMENDERS: Final = 1
_NO_SPEC: Final = "must say in targetRef which workload to scale"
_MAX_NAME_BYTES: Final = 253
"""Maximum length of an object's name in Kubernetes."""


ALL_GATES_ON: Final = FeatureGates()
_DEFAULT_UPDATE_POLICY: Final = Add("/spec/updatePolicy", {"updateMode": UpdateMode.RECREATE.value})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The webhook's decision on an autoscaler."""

    errors: tuple[FieldError, ...]
    warnings: tuple[str, ...]
    patch: Patch

    @property
    def allowed(self) -> bool:
        """True if the object may be stored."""
        return not self.errors


def validate(
    new: wire.VerticalPodAutoscaler,
    old: wire.VerticalPodAutoscaler | None = None,
    *,
    siblings: Sequence[Sibling] = (),
    gates: FeatureGates = ALL_GATES_ON,
    allow_overlapping: bool = False,
) -> Verdict:
    """Return the verdict on creating `new`, or on updating `old` to it.

    `siblings` are all autoscalers of the namespace: those with another target, and `new` itself,
    are ignored.
    """
    if new.spec is None:
        # The patch with the default would fail, and the API server would blame the webhook.
        return Verdict((field_errors.required("spec", _NO_SPEC),), (), ())
    stored = None if old is None else old.spec or wire.Spec()
    gates = feature_gates.widen(gates, stored)
    conflicts = overlaps(new, old, siblings)
    errors = (*_name_errors(new, stored), *_spec_errors(new.spec, stored, gates))
    warnings = (
        *_spec_warnings(new.spec, stored or wire.Spec(), gates),
        *estimator.annotation_warnings(
            metadata.text_map((new.metadata or NO_METADATA).annotations)
        ),
    )
    if allow_overlapping:
        warnings += tuple(f"spec.selector: {conflict}" for conflict in conflicts)
    else:
        errors += tuple(field_errors.forbidden("spec.selector", text) for text in conflicts)
    if new.spec == stored:
        errors = ()
    lacks_policy = new.spec.update_policy is None
    patch = (_DEFAULT_UPDATE_POLICY,) if lacks_policy and not errors else ()
    return Verdict(errors, warnings, patch)


def decode_flaw(error: DecodeError) -> FieldError:
    """Return the error for an object that cannot be decoded."""
    return FieldError(ErrorType.INVALID, error.path or ".", detail=error.problem)


def _name_errors(new: wire.VerticalPodAutoscaler, stored: wire.Spec | None) -> Iterator[FieldError]:
    """Yield errors for names that are too long; a target that an update leaves unchanged passes."""
    meta, target = new.metadata or NO_METADATA, (new.spec or wire.Spec()).target_ref
    names = {"metadata.name": meta.name}
    if target is not None and (stored is None or target != stored.target_ref):
        names |= {"spec.targetRef.kind": target.kind, "spec.targetRef.name": target.name}
    for path, name in names.items():
        if name is not None and len(name.encode()) > _MAX_NAME_BYTES:
            yield field_errors.too_long(path, _MAX_NAME_BYTES)


def _spec_errors(
    new: wire.Spec, stored: wire.Spec | None, gates: FeatureGates
) -> Iterator[FieldError]:
    old = stored or wire.Spec()
    yield from update_policy_errors(new.update_policy, old.update_policy, gates)
    yield from policy_errors(new, old, gates)
    yield from boost_errors(
        new.startup_boost, old.startup_boost, "spec.startupBoost", gate=gates.cpu_startup_boost
    )
    recommenders = len(new.recommenders or ())
    if recommenders > _MAX_RECOMMENDERS:
        yield field_errors.too_many("spec.recommenders", recommenders, _MAX_RECOMMENDERS)
    yield from selector_errors(new.selector, old.selector, gate=gates.pod_selector)


def _spec_warnings(new: wire.Spec, old: wire.Spec, gates: FeatureGates) -> Iterator[str]:
    yield from update_policy_warnings(new.update_policy, gates)
    yield from policy_warnings(new, old)
    yield from boost_warnings(new.startup_boost, "spec.startupBoost")
    yield from selector_warnings(new)
