"""The verdict on an autoscaler that somebody wants to store: errors, warnings, default.

All errors are found at once. What an update leaves as it was is not judged by rules that the
original does not have, so that objects taken over from it can still be edited. An update that
leaves the whole spec as it was is never refused: whatever is stored, its labels can be changed and
its finalizers removed. The schema of the CRD is checked by the API server (and by
`trimtab.api.schema_check` where there is none).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from trimtab.api import autoscaler_wire as wire
from trimtab.api import field_errors, gate_ratchet
from trimtab.api.boost_validation import boost_errors, boost_warnings
from trimtab.api.decoding import DecodeError
from trimtab.api.field_errors import ErrorType, FieldError
from trimtab.api.metadata import NO_METADATA
from trimtab.api.policy_validation import policy_errors, policy_warnings
from trimtab.api.selector_validation import (
    Sibling,
    overlaps,
    selector_errors,
    selector_warnings,
)
from trimtab.api.update_policy_validation import update_policy_errors, update_policy_warnings
from trimtab.core.autoscalers import UpdateMode
from trimtab.core.gates import FeatureGates
from trimtab.core.operations import Add, Patch
from trimtab.core.records import dataclass

_MAX_RECOMMENDERS: Final = 1
_NO_SPEC: Final = "must say in targetRef which workload to scale"
_MAX_NAME_BYTES: Final = 253
"""No object of Kubernetes has a longer name."""


ALL_GATES_ON: Final = FeatureGates()
_DEFAULT_UPDATE_POLICY: Final = Add("/spec/updatePolicy", {"updateMode": UpdateMode.RECREATE.value})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the webhook says to an autoscaler."""

    errors: tuple[FieldError, ...]
    warnings: tuple[str, ...]
    patch: Patch

    @property
    def allowed(self) -> bool:
        """Whether the object may be stored."""
        return not self.errors


def validate(
    new: wire.VerticalPodAutoscaler,
    old: wire.VerticalPodAutoscaler | None = None,
    *,
    siblings: Sequence[Sibling] = (),
    gates: FeatureGates = ALL_GATES_ON,
    allow_overlapping: bool = False,
) -> Verdict:
    """The verdict on creating `new`, or on updating `old` to it.

    `siblings` are all autoscalers of the namespace: those with another target and `new` itself do
    not matter.
    """
    if new.spec is None:
        # The default could not be added to it, and the API server would blame the webhook.
        return Verdict((field_errors.required("spec", _NO_SPEC),), (), ())
    stored = None if old is None else old.spec or wire.Spec()
    gates = gate_ratchet.widen(gates, stored)
    conflicts = overlaps(new, old, siblings)
    errors = (*_name_errors(new, stored), *_spec_errors(new.spec, stored, gates))
    warnings = tuple(_spec_warnings(new.spec, stored or wire.Spec(), gates))
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
    """The error for an object that cannot be read."""
    return FieldError(ErrorType.INVALID, error.path or ".", detail=error.problem)


def _name_errors(new: wire.VerticalPodAutoscaler, stored: wire.Spec | None) -> Iterator[FieldError]:
    """Names that no object can have; a target that an update leaves as it was passes."""
    metadata, target = new.metadata or NO_METADATA, (new.spec or wire.Spec()).target_ref
    names = {"metadata.name": metadata.name}
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
