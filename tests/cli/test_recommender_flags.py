"""The recommender's flags beside the original's, and what becomes of them."""

from datetime import timedelta

import pytest

from trimtab.cli.flags import CommonFlags
from trimtab.cli.recommender_flags import EstimateFlags, LoopFlags, RecommenderFlags, to_settings
from trimtab.cli.starting import flag_name, list_flags
from trimtab.core.gates import FeatureGates
from trimtab.core.resources import Resource
from trimtab.recommender.settings import RecommenderSettings

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

# The flags of the original, version 1.8, with their defaults.
ORIGINAL: dict[str, object] = {
    "--address": ":8942",
    "--recommender-name": "default",
    "--recommender-interval": MINUTE,
    "--checkpoints-gc-interval": 10 * MINUTE,
    "--checkpoints-timeout": MINUTE,
    "--min-checkpoints": 10,
    "--update-worker-count": 10,
    "--storage": "",
    "--memory-saver": False,
    "--recommendation-margin-fraction": 0.15,
    "--pod-recommendation-min-cpu-millicores": 25,
    "--pod-recommendation-min-memory-mb": 250,
    "--target-cpu-percentile": 0.9,
    "--target-memory-percentile": 0.9,
    "--recommendation-lower-bound-cpu-percentile": 0.5,
    "--recommendation-lower-bound-memory-percentile": 0.5,
    "--recommendation-upper-bound-cpu-percentile": 0.95,
    "--recommendation-upper-bound-memory-percentile": 0.95,
    "--confidence-interval-cpu": DAY,
    "--confidence-interval-memory": DAY,
    "--humanize-memory": False,
    "--round-cpu-millicores": 1,
    "--round-memory-bytes": 1,
    "--memory-aggregation-interval": DAY,
    "--memory-aggregation-interval-count": 8,
    "--memory-histogram-decay-half-life": DAY,
    "--cpu-histogram-decay-half-life": DAY,
    "--oom-bump-up-ratio": 1.2,
    "--oom-min-bump-up-bytes": 104857600,
    "--cpu-integer-post-processor-enabled": False,
    "--container-recommendation-max-allowed-cpu": None,
    "--container-recommendation-max-allowed-memory": None,
    "--use-external-metrics": False,
    "--external-metrics-cpu-metric": "",
    "--external-metrics-memory-metric": "",
    "--prometheus-address": "http://prometheus.monitoring.svc",
    "--prometheus-insecure": False,
    "--prometheus-cadvisor-job-name": "kubernetes-cadvisor",
    "--prometheus-query-timeout": 5 * MINUTE,
    "--prometheus-bearer-token": "",
    "--prometheus-bearer-token-file": "",
    "--username": "",
    "--password": "",
    "--history-length": 8 * DAY,
    "--history-resolution": HOUR,
    "--history-cpu-metric": "container_cpu_usage_seconds_total",
    "--history-memory-metric": "container_memory_working_set_bytes",
    "--metric-for-pod-labels": 'up{job="kubernetes-pods"}',
    "--pod-label-prefix": "pod_label_",
    "--pod-namespace-label": "kubernetes_namespace",
    "--pod-name-label": "kubernetes_pod_name",
    "--container-namespace-label": "namespace",
    "--container-pod-name-label": "pod_name",
    "--container-name-label": "name",
    "--leader-elect-resource-name": "vpa-recommender-lease",
    "--kubeconfig": "",
    "--kube-api-qps": 50,
    "--kube-api-burst": 100,
    "--profiling": False,
    "--vpa-object-namespace": "",
    "--ignored-vpa-object-namespaces": "",
    "--feature-gates": "",
    "--v": 4,
    "--stderrthreshold": "info",
    "--logtostderr": True,
    "--alsologtostderr": False,
    "--alsologtostderrthreshold": "",
    "--add-dir-header": False,
    "--skip-headers": False,
    "--skip-log-headers": False,
    "--one-output": False,
    "--log-backtrace-at": ":0",
    "--log-dir": "",
    "--log-file": "",
    "--log-file-max-size": 1800,
    "--legacy-stderr-threshold-behavior": True,
    "--vmodule": "",
    "--leader-elect": False,
    "--leader-elect-lease-duration": timedelta(seconds=15),
    "--leader-elect-renew-deadline": timedelta(seconds=10),
    "--leader-elect-retry-period": timedelta(seconds=2),
    "--leader-elect-resource-lock": "leases",
    "--leader-elect-resource-namespace": "kube-system",
}
OURS = {"--log-format", "--export-recommendations"}


def test_every_flag_of_the_original_has_its_name_and_its_default() -> None:
    flags = list_flags(CommonFlags(), RecommenderFlags())
    ours = {flag_name(name): value for name, value in flags.items()}

    assert {name: ours.get(name, "missing") for name in ORIGINAL} == ORIGINAL
    assert ours.keys() - ORIGINAL.keys() == OURS


def test_flags_that_nobody_sets_are_the_settings_by_default() -> None:
    settings = to_settings(CommonFlags().cluster, RecommenderFlags(), FeatureGates())

    assert settings == RecommenderSettings()


def test_flags_reach_the_settings_that_they_are_for() -> None:
    flags = RecommenderFlags(
        loop=LoopFlags(recommender_name="mine", recommender_interval=timedelta(seconds=30)),
        estimates=EstimateFlags(
            pod_recommendation_min_memory_mb=100.5,
            target_memory_percentile=0.8,
            container_recommendation_max_allowed_cpu=4000,
        ),
    )
    settings = to_settings(CommonFlags().cluster, flags, FeatureGates(per_vpa_config=False))

    assert (settings.name, settings.interval) == ("mine", timedelta(seconds=30))
    assert settings.recommendations.memory.pod_floor == 105381888
    assert settings.recommendations.memory.target_percentile == 0.8
    assert settings.recommendations.max_allowed == {Resource.CPU: 4000}
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
