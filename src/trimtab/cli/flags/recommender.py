"""The recommender's own flags, under the names and with the defaults of the original."""

from dataclasses import dataclass
from datetime import timedelta

from trimtab.cli.flags.common import ClusterFlags
from trimtab.cli.flags.types import (
    Cpu,
    LongSpan,
    Memory,
    Named,
    Number,
    Span,
    Switch,
    Text,
    Whole,
    flag_group,
    flag_groups,
    split_names,
)
from trimtab.core.model.estimation import CostSettings, Estimator
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.model.recommendation import MIB, RecommendationSettings, ResourceSettings
from trimtab.core.model.resources import Resource
from trimtab.core.recommendation.status_changes import PublishingSettings
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.recommender.settings import (
    HistorySettings,
    PressureOrigin,
    PressureReadSettings,
    RecommenderSettings,
)


@flag_group("Recommender", order=1)
@dataclass(frozen=True, slots=True)
class LoopFlags:
    """Flags for the recommender's loop."""

    address: Named = ":8942"
    """Where /metrics, /health-check and /readyz are served."""
    recommender_name: Named = "default"
    """Serve the autoscalers that name it; `default` also serves those that name no recommender."""
    recommender_interval: Span = timedelta(minutes=1)
    """How often usage is read and recommendations are made."""
    storage: Text = ""
    """With `prometheus` history comes from there, too; otherwise from checkpoints alone."""
    memory_saver: Switch = False
    """Track only pods that an autoscaler governs."""
    update_worker_count: Whole = 10
    """How many writes may be under way at once."""
    checkpoints_timeout: Span = timedelta(minutes=1)
    """How long writes may take in one turn; the rest comes in the next one."""
    checkpoints_gc_interval: Span = timedelta(minutes=10)
    """How often checkpoints are looked for whose autoscaler is gone."""
    checkpoint_rotation: Span = timedelta(minutes=10)
    """Within this time histories are saved that change a recommendation, all others within three
    times as long."""
    status_patience: Span = timedelta(minutes=10)
    """How long a bound that moved past no request waits until its status is written."""
    hpa_conflict: HpaConflict = HpaConflict.HOLD
    """Where a HorizontalPodAutoscaler scales on a resource: say that it is held, or only warn."""
    pressure_source: PressureOrigin = PressureOrigin.NONE
    """For `cost`: where to read that containers are throttled or wait for CPU or memory."""
    min_checkpoints: Whole = 10
    """Deprecated, without effect."""
    leader_elect_resource_name: Named = "vpa-recommender-lease"
    """The name of the lease."""
    export_recommendations: Switch = False
    """Show recommendations in /metrics, by the names that kube-state-metrics once had."""


@flag_group("Recommendations", order=2)
@dataclass(frozen=True, slots=True)
class EstimateFlags:
    """Flags for the computation of recommendations."""

    estimator: Estimator = Estimator.PERCENTILE
    """The estimator of autoscalers that choose none by annotation: `percentile` is the original's
    arithmetic, `cost` holds memory until holding it costs more than an OOM kill."""
    oom_price_gib_hours: Number = 40.0
    """For `cost`: unused memory that avoiding one OOM kill of a container of 1 GiB is worth, in
    GiB-hours; one of 16 GiB is worth 9 times as much."""
    recommendation_margin_fraction: Number = 0.15
    """What is added to every estimate, as a part of it."""
    pod_recommendation_min_cpu_millicores: Number = 25.0
    """The least CPU for all containers of a pod together."""
    pod_recommendation_min_memory_mb: Number = 250.0
    """The least memory for all containers of a pod together, in MiB."""
    target_cpu_percentile: Number = 0.9
    """The part of CPU usage that the target covers."""
    target_memory_percentile: Number = 0.9
    """The part of memory peaks that the target covers."""
    recommendation_lower_bound_cpu_percentile: Number = 0.5
    """The part of CPU usage that the lower bound covers."""
    recommendation_lower_bound_memory_percentile: Number = 0.5
    """The part of memory peaks that the lower bound covers."""
    recommendation_upper_bound_cpu_percentile: Number = 0.95
    """The part of CPU usage that the upper bound covers."""
    recommendation_upper_bound_memory_percentile: Number = 0.95
    """The part of memory peaks that the upper bound covers."""
    confidence_interval_cpu: Span = timedelta(days=1)
    """How much history of CPU makes its bounds trustworthy."""
    confidence_interval_memory: Span = timedelta(days=1)
    """How much history of memory makes its bounds trustworthy."""
    humanize_memory: Switch = False
    """Deprecated: bring memory to two decimals of its binary unit."""
    round_cpu_millicores: Whole = 1
    """CPU is rounded up to a multiple of this."""
    round_memory_bytes: Whole = 1
    """Memory is rounded up to a multiple of this."""
    cpu_integer_post_processor_enabled: Switch = False
    """Let autoscalers ask for whole cores by annotation."""
    container_recommendation_max_allowed_cpu: Cpu = None
    """The most CPU for a container whose policy does not say."""
    container_recommendation_max_allowed_memory: Memory = None
    """The most memory for a container whose policy does not say."""


@flag_group("Learning", order=3)
@dataclass(frozen=True, slots=True)
class LearningFlags:
    """Flags for the histograms of usage."""

    memory_aggregation_interval: Span = timedelta(days=1)
    """Of each such interval the largest memory usage counts."""
    memory_aggregation_interval_count: Whole = 8
    """After so many intervals without a sample everything is forgotten."""
    memory_histogram_decay_half_life: Span = timedelta(days=1)
    """After this time a memory peak weighs half as much."""
    cpu_histogram_decay_half_life: Span = timedelta(days=1)
    """After this time a CPU sample weighs half as much."""
    oom_bump_up_ratio: Number = 1.2
    """A container that was OOM-killed needs this many times the memory that it had."""
    oom_min_bump_up_bytes: Number = 100.0 * MIB
    """A container that was OOM-killed needs at least this much more memory."""
    use_external_metrics: Switch = False
    """Read usage from the external metrics API."""
    external_metrics_cpu_metric: Text = ""
    """The external metric that is CPU usage."""
    external_metrics_memory_metric: Text = ""
    """The external metric that is memory usage."""


@flag_group("History from Prometheus", order=4)
@dataclass(frozen=True, slots=True)
class PrometheusFlags:
    """Flags for Prometheus, and the names of its metrics and labels."""

    prometheus_address: Named = "http://prometheus.monitoring.svc"
    """The address of Prometheus, such as http://prometheus.monitoring:9090."""
    prometheus_insecure: Switch = False
    """Do not verify the certificate of Prometheus."""
    prometheus_cadvisor_job_name: Named = "kubernetes-cadvisor"
    """The job that scrapes usage; if there is none of this name, any job."""
    prometheus_query_timeout: Span = timedelta(minutes=5)
    """How long a query may take."""
    prometheus_max_queries: Whole = 4
    """How many queries may be under way at once."""
    prometheus_max_response_bytes: Whole = 32 * 2**20
    """How large an answer may be; what would be larger is asked for in parts."""
    prometheus_bearer_token: Text = ""
    """The token for Prometheus."""
    prometheus_bearer_token_file: Text = ""
    """The file that holds the token for Prometheus."""
    username: Text = ""
    """The user of Prometheus."""
    password: Text = ""
    """The password of that user."""
    history_cpu_metric: Named = "container_cpu_usage_seconds_total"
    """The metric that counts CPU usage."""
    history_memory_metric: Named = "container_memory_working_set_bytes"
    """The metric that is memory usage."""
    metric_for_pod_labels: Named = 'up{job="kubernetes-pods"}'
    """The metric that has the labels of pods; kube-state-metrics is found without it."""
    pod_label_prefix: Named = "pod_label_"
    """The prefix of the labels of pods there."""
    pod_namespace_label: Named = "kubernetes_namespace"
    """The label that is a pod's namespace there."""
    pod_name_label: Named = "kubernetes_pod_name"
    """The label that is a pod's name there."""
    container_namespace_label: Named = "namespace"
    """The label that is a container's namespace in usage."""
    container_pod_name_label: Named = "pod_name"
    """The label that is a container's pod in usage."""
    container_name_label: Named = "name"
    """The label that is a container's name in usage; other usual ones are found without it."""


@flag_group("History from Prometheus", order=4)
@dataclass(frozen=True, slots=True)
class HistoryFlags(PrometheusFlags):
    """Flags for Prometheus, and the length and resolution of the history."""

    history_length: LongSpan = timedelta(days=8)
    """How far back history goes."""
    history_resolution: LongSpan = timedelta(hours=1)
    """How far samples of history are apart."""


@flag_groups
@dataclass(frozen=True, slots=True)
class RecommenderFlags:
    """All flags of the recommender besides the common ones."""

    loop: LoopFlags = LoopFlags()
    estimates: EstimateFlags = EstimateFlags()
    learning: LearningFlags = LearningFlags()
    history: HistoryFlags = HistoryFlags()


def to_settings(
    cluster: ClusterFlags, flags: RecommenderFlags, gates: FeatureGates
) -> RecommenderSettings:
    """Return the settings that the flags describe; a SettingsError if they are invalid."""
    loop = flags.loop
    return RecommenderSettings(
        name=loop.recommender_name,
        interval=loop.recommender_interval,
        namespace=cluster.vpa_object_namespace,
        ignored_namespaces=split_names(cluster.ignored_vpa_object_namespaces),
        memory_saver=loop.memory_saver,
        update_worker_count=loop.update_worker_count,
        checkpoints_timeout=loop.checkpoints_timeout,
        checkpoints_gc_interval=loop.checkpoints_gc_interval,
        checkpoint_rotation=loop.checkpoint_rotation,
        hpa_conflict=loop.hpa_conflict,
        publishing=PublishingSettings(patience=loop.status_patience),
        usage=_usage_settings(flags.learning, gates),
        recommendations=_recommendation_settings(flags.estimates),
        history=HistorySettings(
            length=flags.history.history_length,
            resolution=flags.history.history_resolution,
            workers=flags.history.prometheus_max_queries,
        ),
        pressure=PressureReadSettings(
            loop.pressure_source,
            loop.recommender_interval,
            # Signals that come later are of little use to the next tick.
            timeout=loop.recommender_interval / 2,
        ),
        gates=gates,
    )


def _usage_settings(flags: LearningFlags, gates: FeatureGates) -> UsageSettings:
    return UsageSettings(
        cpu_half_life=flags.cpu_histogram_decay_half_life,
        memory_half_life=flags.memory_histogram_decay_half_life,
        memory_interval=flags.memory_aggregation_interval,
        memory_interval_count=flags.memory_aggregation_interval_count,
        oom_bump_up_ratio=flags.oom_bump_up_ratio,
        oom_min_bump_up_bytes=int(flags.oom_min_bump_up_bytes),
        allows_overrides=gates.per_vpa_config,
    )


def _recommendation_settings(flags: EstimateFlags) -> RecommendationSettings:
    most = {
        Resource.CPU: flags.container_recommendation_max_allowed_cpu,
        Resource.MEMORY: flags.container_recommendation_max_allowed_memory,
    }
    return RecommendationSettings(
        estimator=flags.estimator,
        cost=CostSettings(oom_price_gib_hours=flags.oom_price_gib_hours),
        cpu=ResourceSettings(
            pod_floor=int(flags.pod_recommendation_min_cpu_millicores),
            target_percentile=flags.target_cpu_percentile,
            lower_percentile=flags.recommendation_lower_bound_cpu_percentile,
            upper_percentile=flags.recommendation_upper_bound_cpu_percentile,
            confidence_interval=flags.confidence_interval_cpu,
            rounding=flags.round_cpu_millicores,
        ),
        memory=ResourceSettings(
            pod_floor=int(flags.pod_recommendation_min_memory_mb * MIB),
            target_percentile=flags.target_memory_percentile,
            lower_percentile=flags.recommendation_lower_bound_memory_percentile,
            upper_percentile=flags.recommendation_upper_bound_memory_percentile,
            confidence_interval=flags.confidence_interval_memory,
            rounding=flags.round_memory_bytes,
        ),
        margin_fraction=flags.recommendation_margin_fraction,
        humanize_memory=flags.humanize_memory,
        integer_cpu=flags.cpu_integer_post_processor_enabled,
        max_allowed={kind: amount for kind, amount in most.items() if amount is not None},
    )
