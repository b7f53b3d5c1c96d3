"""The recommender's flags beside the original's, and what becomes of them."""

from dataclasses import fields, replace
from datetime import timedelta
from operator import attrgetter

import pytest

from reference.original_flags import RECOMMENDER as ORIGINAL
from trimtab.cli.flags.common import CommonFlags, PageFlags
from trimtab.cli.flags.recommender import EstimateFlags, RecommenderFlags, to_settings
from trimtab.cli.flags.start import flag_name, list_flags
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.model.resources import Resource
from trimtab.recommender.settings import PressureOrigin, RecommenderSettings

OURS = {
    "--checkpoint-rotation",
    "--export-recommendations",
    "--estimator",
    "--hpa-conflict",
    "--log-format",
    "--oom-price-gib-hours",
    "--pressure-source",
    "--strict-flags",
    "--read-timeout",
    "--status-patience",
    "--prometheus-max-queries",
    "--prometheus-max-response-bytes",
    *(flag_name(field.name) for field in fields(PageFlags)),
}


def test_every_flag_of_the_original_has_its_name_and_its_default() -> None:
    flags = list_flags(CommonFlags(), RecommenderFlags())
    ours = {flag_name(name): value for name, value in flags.items()}

    assert {name: ours.get(name, "missing") for name in ORIGINAL} == ORIGINAL
    assert ours.keys() - ORIGINAL.keys() == OURS


def test_flags_that_nobody_sets_are_the_settings_by_default() -> None:
    settings = to_settings(CommonFlags().cluster, RecommenderFlags(), FeatureGates())

    assert settings == RecommenderSettings()


SECONDS_7 = timedelta(seconds=7)
# Where a flag goes, and a value that is not its default.
DESTINATIONS: list[tuple[str, object, str]] = [
    ("recommender_name", "mine", "name"),
    ("recommender_interval", SECONDS_7, "interval"),
    ("memory_saver", True, "memory_saver"),
    ("update_worker_count", 7, "update_worker_count"),
    ("checkpoints_timeout", SECONDS_7, "checkpoints_timeout"),
    ("checkpoints_gc_interval", SECONDS_7, "checkpoints_gc_interval"),
    ("checkpoint_rotation", SECONDS_7, "checkpoint_rotation"),
    ("status_patience", SECONDS_7, "publishing.patience"),
    ("hpa_conflict", HpaConflict.WARN, "hpa_conflict"),
    ("pressure_source", PressureOrigin.KUBELET, "pressure.origin"),
    ("recommendation_margin_fraction", 0.7, "recommendations.margin_fraction"),
    ("pod_recommendation_min_cpu_millicores", 7, "recommendations.cpu.pod_floor"),
    ("target_cpu_percentile", 0.7, "recommendations.cpu.target_percentile"),
    ("target_memory_percentile", 0.7, "recommendations.memory.target_percentile"),
    ("recommendation_lower_bound_cpu_percentile", 0.7, "recommendations.cpu.lower_percentile"),
    (
        "recommendation_lower_bound_memory_percentile",
        0.7,
        "recommendations.memory.lower_percentile",
    ),
    ("recommendation_upper_bound_cpu_percentile", 0.7, "recommendations.cpu.upper_percentile"),
    (
        "recommendation_upper_bound_memory_percentile",
        0.7,
        "recommendations.memory.upper_percentile",
    ),
    ("confidence_interval_cpu", SECONDS_7, "recommendations.cpu.confidence_interval"),
    ("confidence_interval_memory", SECONDS_7, "recommendations.memory.confidence_interval"),
    ("humanize_memory", True, "recommendations.humanize_memory"),
    ("round_cpu_millicores", 7, "recommendations.cpu.rounding"),
    ("round_memory_bytes", 7, "recommendations.memory.rounding"),
    ("cpu_integer_post_processor_enabled", True, "recommendations.integer_cpu"),
    ("memory_aggregation_interval", SECONDS_7, "usage.memory_interval"),
    ("memory_aggregation_interval_count", 7, "usage.memory_interval_count"),
    ("memory_histogram_decay_half_life", SECONDS_7, "usage.memory_half_life"),
    ("cpu_histogram_decay_half_life", SECONDS_7, "usage.cpu_half_life"),
    ("oom_bump_up_ratio", 7.0, "usage.oom_bump_up_ratio"),
    ("oom_min_bump_up_bytes", 7, "usage.oom_min_bump_up_bytes"),
    ("history_length", SECONDS_7, "history.length"),
    ("history_resolution", SECONDS_7, "history.resolution"),
    ("prometheus_max_queries", 7, "history.workers"),
]


def flags_with(name: str, value: object) -> RecommenderFlags:
    """The flags by default, but for one."""
    flags = RecommenderFlags()
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
    settings = to_settings(CommonFlags().cluster, flags_with(name, value), FeatureGates())

    assert attrgetter(destination)(RecommenderSettings()) != value
    assert attrgetter(destination)(settings) == value


def test_flags_in_other_units_than_settings_are_converted() -> None:
    estimates = EstimateFlags(
        pod_recommendation_min_memory_mb=100.5,
        container_recommendation_max_allowed_cpu=4000,
        container_recommendation_max_allowed_memory=5,
    )
    gates = FeatureGates(per_vpa_config=False)
    settings = to_settings(CommonFlags().cluster, RecommenderFlags(estimates=estimates), gates)

    assert settings.recommendations.memory.pod_floor == 105381888
    assert settings.recommendations.max_allowed == {Resource.CPU: 4000, Resource.MEMORY: 5}
    assert settings.gates == gates
    assert not settings.usage.allows_overrides


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("", set(), id="nothing"),
        pytest.param("a", {"a"}, id="one"),
        pytest.param("a, b,,", {"a", "b"}, id="blanks are not part of a name"),
    ],
)
def test_ignored_namespaces_are_a_list_with_commas(text: str, names: set[str]) -> None:
    common = CommonFlags()
    cluster = type(common.cluster)(ignored_vpa_object_namespaces=text)
    settings = to_settings(cluster, RecommenderFlags(), FeatureGates())

    assert settings.ignored_namespaces == names
