"""Feature gates in validation: features that an object already uses stay accepted.

So switching a gate off leaves every stored object editable. An object that did not use the feature
before cannot start to use it.
"""

from trimtab.api.kinds import autoscaler_wire as wire
from trimtab.api.wire import quantities
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.feature_gates import FeatureGates


def widen(gates: FeatureGates, old: wire.Spec | None) -> FeatureGates:
    """Return the gates, plus those whose features the stored object uses."""
    if old is None:
        return gates
    mode = old.update_policy.update_mode if old.update_policy else None
    return FeatureGates(
        cpu_startup_boost=gates.cpu_startup_boost or _uses_boost(old),
        in_place=gates.in_place or mode == UpdateMode.IN_PLACE,
        per_vpa_config=gates.per_vpa_config or _uses_own_config(old),
        pod_selector=gates.pod_selector or old.selector is not None,
        upscale_only=gates.upscale_only or mode == UpdateMode.UPSCALE_ONLY,
    )


def container_policies(spec: wire.Spec) -> tuple[wire.ContainerPolicy, ...]:
    """Return all container policies of an object."""
    return (spec.resource_policy and spec.resource_policy.container_policies) or ()


def _uses_boost(spec: wire.Spec) -> bool:
    general = spec.startup_boost is not None and spec.startup_boost.cpu is not None
    return general or any(policy.startup_boost for policy in container_policies(spec))


def _uses_own_config(spec: wire.Spec) -> bool:
    update = spec.update_policy
    return (update is not None and update.evict_after_oom_seconds is not None) or any(
        quantities.is_given(policy.oom_bump_up_ratio)
        or quantities.is_given(policy.oom_min_bump_up)
        or policy.memory_aggregation_interval_seconds is not None
        or policy.memory_aggregation_interval_count is not None
        for policy in container_policies(spec)
    )
