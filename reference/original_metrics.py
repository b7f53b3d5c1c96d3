"""The metrics of the original, version 1.8: their types, labels and, of histograms, bounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

_STEP_BOUNDS: Final = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90),
    *(100, 120, 150, 240, 300),
)
_LATENCY_BOUNDS: Final = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1, 2, 5, 10, 20, 30, 60, 120, 300),
)
_FIRST_BOUNDS: Final = (
    *(1, 2, 5, 7.5, 10, 20, 30, 40, 50, 60, 90, 120, 150, 180),
    *(240, 300, 600, 900, 1800),
)
_CORES: Final = tuple(0.01 * 2**power for power in range(17))
_BYTES: Final = tuple(1e6 * 2**power for power in range(17))
_PARTS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1)
_RELATIVE: Final = (*(-part for part in reversed(_PARTS)), 0, *_PARTS, 2.5, 5, 10, 25, 50, 100)
_OBJECT: Final = ("vpa_name", "vpa_namespace")


@dataclass(frozen=True, slots=True)
class OriginalMetric:
    """What Prometheus sees of one metric, but for its values."""

    kind: Kind
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


RECOMMENDER: Final[Mapping[str, OriginalMetric]] = {
    "vpa_recommender_vpa_objects_count": OriginalMetric(
        "gauge", ("update_mode", "has_recommendation", "api", "matches_pods", "unsupported_config")
    ),
    "vpa_recommender_recommendation_latency_seconds": OriginalMetric(
        "histogram", bounds=_FIRST_BOUNDS
    ),
    "vpa_recommender_execution_latency_seconds": OriginalMetric(
        "histogram", ("step",), _STEP_BOUNDS
    ),
    "vpa_recommender_aggregate_container_states_count": OriginalMetric("gauge"),
    "vpa_recommender_metric_server_responses": OriginalMetric(
        "counter", ("is_error", "client_name")
    ),
    "vpa_recommender_prometheus_client_api_requests_count": OriginalMetric(
        "counter", ("code", "method")
    ),
    "vpa_recommender_prometheus_client_api_requests_duration_seconds": OriginalMetric(
        "histogram", ("code", "method"), _LATENCY_BOUNDS
    ),
    "vpa_resources_get_resources_count": OriginalMetric("counter", ("source",)),
    "vpa_quality_usage_recommendation_relative_diffs": OriginalMetric(
        "histogram", ("update_mode", "resource", "is_oom"), _RELATIVE
    ),
    "vpa_quality_usage_sample_missing_recommendation_count": OriginalMetric(
        "counter", ("update_mode", "resource", "is_oom")
    ),
    "vpa_quality_cpu_recommendation_over_usage_diffs_cores": OriginalMetric(
        "histogram", ("update_mode", "recommendation_missing"), _CORES
    ),
    "vpa_quality_cpu_recommendation_lower_equal_usage_diffs_cores": OriginalMetric(
        "histogram", ("update_mode", "recommendation_missing"), _CORES
    ),
    "vpa_quality_mem_recommendation_over_usage_diffs_bytes": OriginalMetric(
        "histogram", ("update_mode", "recommendation_missing", "is_oom"), _BYTES
    ),
    "vpa_quality_mem_recommendation_lower_equal_usage_diffs_bytes": OriginalMetric(
        "histogram", ("update_mode", "recommendation_missing", "is_oom"), _BYTES
    ),
    "vpa_quality_cpu_recommendations_cores": OriginalMetric("histogram", ("update_mode",), _CORES),
    "vpa_quality_mem_recommendations_bytes": OriginalMetric(
        "histogram", ("update_mode", "is_oom"), _BYTES
    ),
    "vpa_quality_relative_recommendation_changes": OriginalMetric(
        "histogram", ("update_mode", "resource", "vpa_size_log2"), _RELATIVE
    ),
}
UPDATER: Final[Mapping[str, OriginalMetric]] = {
    "vpa_updater_controlled_pods_total": OriginalMetric("gauge", ("vpa_size_log2", "update_mode")),
    "vpa_updater_evictable_pods_total": OriginalMetric("gauge", ("vpa_size_log2", "update_mode")),
    "vpa_updater_evicted_pods_total": OriginalMetric(
        "counter", ("vpa_size_log2", "update_mode", *_OBJECT)
    ),
    "vpa_updater_vpas_with_evictable_pods_total": OriginalMetric(
        "gauge", ("vpa_size_log2", "update_mode")
    ),
    "vpa_updater_vpas_with_evicted_pods_total": OriginalMetric(
        "gauge", ("vpa_size_log2", "update_mode")
    ),
    "vpa_updater_failed_eviction_attempts_total": OriginalMetric(
        "counter", ("vpa_size_log2", "update_mode", "reason", *_OBJECT)
    ),
    "vpa_updater_in_place_updatable_pods_total": OriginalMetric("gauge", ("vpa_size_log2",)),
    "vpa_updater_in_place_updated_pods_total": OriginalMetric(
        "counter", ("vpa_size_log2", *_OBJECT)
    ),
    "vpa_updater_vpas_with_in_place_updatable_pods_total": OriginalMetric(
        "gauge", ("vpa_size_log2",)
    ),
    "vpa_updater_vpas_with_in_place_updated_pods_total": OriginalMetric(
        "gauge", ("vpa_size_log2",)
    ),
    "vpa_updater_failed_in_place_update_attempts_total": OriginalMetric(
        "counter", ("vpa_size_log2", "reason", *_OBJECT)
    ),
    "vpa_updater_in_place_infeasible_skip_pods_total": OriginalMetric(
        "counter", ("vpa_size_log2", *_OBJECT)
    ),
    "vpa_updater_execution_latency_seconds": OriginalMetric("histogram", ("step",), _STEP_BOUNDS),
    "vpa_updater_admission_controller_status_invalid_total": OriginalMetric("counter", ("reason",)),
}
ADMISSION: Final[Mapping[str, OriginalMetric]] = {
    "vpa_admission_controller_admission_pods_total": OriginalMetric("counter", ("applied",)),
    "vpa_admission_controller_admission_latency_seconds": OriginalMetric(
        "histogram", ("status", "resource"), _LATENCY_BOUNDS
    ),
    "vpa_admission_controller_execution_latency_seconds": OriginalMetric(
        "histogram", ("step",), _STEP_BOUNDS
    ),
}
