"""The updater's flags beside the original's, and what becomes of them."""

from dataclasses import fields, replace
from datetime import timedelta
from functools import partial
from operator import attrgetter

import pytest

from reference.original_flags import UPDATER as ORIGINAL
from trimtab.cli.flags.common import ClusterFlags, CommonFlags, PageFlags
from trimtab.cli.flags.start import flag_name, list_flags
from trimtab.cli.flags.updater import CareFlags, LoopFlags, UpdaterFlags, to_settings
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hpa import HpaConflict
from trimtab.updater.settings import UpdaterSettings

# The budget of evictions is on by default here (D14).
OTHER_DEFAULTS: dict[str, object] = {"--eviction-rate-limit": 1, "--eviction-rate-burst": 10}
OURS = {"--log-format", "--read-timeout", "--strict-flags"} | {
    flag_name(field.name) for record in (CareFlags, PageFlags) for field in fields(record)
}

settings_of = partial(to_settings, CommonFlags().cluster, environment={}, gates=FeatureGates())


def test_every_flag_of_the_original_has_its_name_and_but_for_the_pace_its_default() -> None:
    flags = list_flags(CommonFlags(), UpdaterFlags())
    ours = {flag_name(name): value for name, value in flags.items()}

    assert {name: ours.get(name, "missing") for name in ORIGINAL} == {**ORIGINAL, **OTHER_DEFAULTS}
    assert ours.keys() - ORIGINAL.keys() == OURS


def test_flags_that_nobody_sets_are_the_settings_by_default() -> None:
    assert settings_of(flags=UpdaterFlags()) == UpdaterSettings()


SECONDS_7 = timedelta(seconds=7)
# Where a flag goes, and a value that is not its default.
DESTINATIONS: list[tuple[str, object, str]] = [
    ("updater_interval", SECONDS_7, "interval"),
    ("use_admission_controller_status", False, "uses_admission_status"),
    ("admission_controller_status_lease_name", "mine", "admission_lease_name"),
    ("admission_controller_status_lease_namespace", "mine", "admission_lease_namespace"),
    ("admission_controller_status_lease_timeout", SECONDS_7, "admission_lease_timeout"),
    ("pod_update_threshold", 0.7, "plan.thresholds.smallest_change"),
    (
        "in_recommendation_bounds_eviction_lifetime_threshold",
        SECONDS_7,
        "plan.thresholds.lifetime",
    ),
    ("evict_after_oom_threshold", SECONDS_7, "plan.thresholds.quick_oom"),
    ("min_replicas", 7, "plan.disruption.min_replicas"),
    ("eviction_tolerance", 0.7, "plan.disruption.tolerance"),
    ("eviction_rate_limit", 7.0, "pace.per_second"),
    ("eviction_rate_burst", 7, "pace.burst"),
    ("eviction_slow_start", SECONDS_7, "pace.slow_start"),
    ("pause", True, "plan.paused"),
    ("cool_down", SECONDS_7, "plan.cool_down"),
    ("role_dwell", SECONDS_7, "plan.role_dwell"),
    ("max_boost_duration", SECONDS_7, "plan.max_boost_duration"),
    ("boost_unschedulable_timeout", SECONDS_7, "plan.boost_unschedulable_timeout"),
    ("max_boosted_pods_per_node", 7, "max_boosted_per_node"),
    ("stop_degraded_after", timedelta(minutes=7), "plan.degraded_after"),
    ("max_misses", 7, "plan.max_misses"),
    ("max_misses", 7, "plan.max_unproven"),
    ("surge_margin", 0.7, "plan.surge_margin"),
    ("surge_min_pods", 7, "plan.surge_min_pods"),
    ("infeasible_retry_after", SECONDS_7, "plan.infeasible_retry_after"),
    ("evict_after_deferred_threshold", SECONDS_7, "plan.evict_after_deferred"),
    ("grow_only_under_requirements", True, "plan.grow_only_under_requirements"),
    ("ignore_eviction_annotations", True, "plan.evicts_unwillingly"),
    ("hpa_conflict", HpaConflict.WARN, "hpa_conflict"),
    ("cap_to_largest_node", False, "caps_to_nodes"),
    ("update_worker_count", 7, "concurrency"),
]
NOT_SETTINGS = {
    "address",
    "concurrent_cpu_startup_boost_syncs",
    "in_place_skip_disruption_budget",
    "leader_elect_resource_name",
}


def flags_with(name: str, value: object) -> UpdaterFlags:
    """The flags by default, but for one."""
    flags = UpdaterFlags()
    for group in fields(flags):
        record = getattr(flags, group.name)
        if hasattr(record, name):
            changed = replace(record, **{name: value})
            return replace(flags, **{group.name: changed})
    raise AssertionError(name)


@pytest.mark.parametrize(("name", "value", "destination"), DESTINATIONS)
def test_a_flag_reaches_the_one_setting_that_it_is_for(
    name: str, value: object, destination: str
) -> None:
    settings = settings_of(flags=flags_with(name, value))

    assert attrgetter(destination)(UpdaterSettings()) != value
    assert attrgetter(destination)(settings) == value


def test_every_flag_has_a_destination() -> None:
    flags = list_flags(UpdaterFlags()).keys() - NOT_SETTINGS

    assert flags == {name for name, _, _ in DESTINATIONS}


@pytest.mark.parametrize(
    ("flag", "environment", "namespace"),
    [
        pytest.param("mine", {"NAMESPACE": "there"}, "mine", id="the flag wins"),
        pytest.param("", {"NAMESPACE": "there"}, "there", id="where it runs"),
        pytest.param("", {}, "kube-system", id="where the original would be"),
    ],
)
def test_the_lease_of_the_admission_controller_is_looked_for_in_its_namespace(
    flag: str, environment: dict[str, str], namespace: str
) -> None:
    loop = LoopFlags(admission_controller_status_lease_namespace=flag)
    flags, gates = UpdaterFlags(loop=loop), FeatureGates()
    settings = to_settings(ClusterFlags(), flags, environment, gates)

    assert settings.admission_lease_namespace == namespace


@pytest.mark.parametrize("name", ["max_boost_duration", "boost_unschedulable_timeout"])
def test_a_boost_without_a_limit_is_a_duration_of_zero(name: str) -> None:
    settings = settings_of(flags=flags_with(name, timedelta()))

    assert getattr(settings.plan, name) is None


def test_namespaces_and_gates_come_from_the_flags_that_all_components_have() -> None:
    gates = FeatureGates(upscale_only=False)
    ignoring = ClusterFlags(ignored_vpa_object_namespaces="a, b")
    choosing = ClusterFlags(vpa_object_namespace="c")

    assert to_settings(ignoring, UpdaterFlags(), {}, gates).ignored_namespaces == {"a", "b"}
    assert to_settings(choosing, UpdaterFlags(), {}, gates).namespace == "c"
    assert to_settings(choosing, UpdaterFlags(), {}, gates).plan.gates == gates
