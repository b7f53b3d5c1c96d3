"""The admission controller's metrics, under the original's names, summed over all workers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, product
from typing import Final

from prometheus_client import Counter, Gauge, Metric
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from trimtab.admission.admit import AdmitOutcome
from trimtab.admission.reports import (
    LATENCY_BOUNDS,
    STEP_BOUNDS,
    AdmissionCounts,
    Distribution,
    Reviewed,
    ReviewStatus,
    ReviewTrouble,
    add_up,
)

_PREFIX: Final = "vpa_admission_controller"


class AdmissionCollector(Collector):
    """Exports the counts at the time of the scrape."""

    def __init__(
        self, tallies: Callable[[], Iterable[AdmissionCounts]], connections: Callable[[], int]
    ) -> None:
        self._tallies = tallies
        self._connections = connections

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics at the time of the scrape."""
        tally = add_up(self._tallies())
        yield from _show_pods(tally)
        yield _show_latencies(tally)
        yield _show_steps(tally)
        yield from _show_troubles(tally)
        yield GaugeMetricFamily(
            f"{_PREFIX}_connections",
            "Open connections to this process.",
            value=self._connections(),
        )


def _show_pods(tally: AdmissionCounts) -> Iterator[Metric]:
    applied = sum(tally.pods.get(how, 0) for how in (AdmitOutcome.PATCHED, AdmitOutcome.WITHHELD))
    yield _counter(
        "admission_pods",
        "New pods, and whether anything was changed in them.",
        ["applied"],
        {"true": applied, "false": sum(tally.pods.values()) - applied},
    )
    yield _counter(
        "pod_outcomes",
        "New pods, and how they were admitted.",
        ["outcome"],
        {how.value: tally.pods.get(how, 0) for how in AdmitOutcome},
    )


def _show_latencies(tally: AdmissionCounts) -> Metric:
    family = HistogramMetricFamily(
        f"{_PREFIX}_admission_latency_seconds",
        "The time that a review takes, from the moment it is there.",
        labels=["status", "resource"],
    )
    for outcome in product(ReviewStatus, Reviewed):
        if found := tally.latencies.get(outcome):
            family.add_metric([each.value for each in outcome], *_shown(found, LATENCY_BOUNDS))
    return family


def _show_steps(tally: AdmissionCounts) -> Metric:
    family = HistogramMetricFamily(
        f"{_PREFIX}_execution_latency_seconds",
        "The time that a step of a review takes.",
        labels=["step"],
    )
    for step, found in tally.steps.items():
        family.add_metric([step.value], *_shown(found, STEP_BOUNDS))
    return family


def _show_troubles(tally: AdmissionCounts) -> Iterator[Metric]:
    yield _counter(
        "misunderstood_reviews",
        "Reviews that were allowed without being understood.",
        ["reason"],
        {trouble.value: tally.troubles.get(trouble, 0) for trouble in ReviewTrouble},
    )
    yield _counter(
        "refused_connections",
        "Connections that were ended because of what came, by HTTP status.",
        ["status"],
        {str(status): count for status, count in sorted(tally.refused_connections.items())},
    )
    for name, text, value in (
        ("shed_requests", "Requests let through unseen because too many waited.", tally.shed),
        ("refused_autoscalers", "Autoscalers that were refused.", tally.refused_autoscalers),
        ("warnings", "Warnings given to users.", tally.warnings),
    ):
        yield CounterMetricFamily(f"{_PREFIX}_{name}", text, value=value)


def _counter(name: str, text: str, labels: list[str], values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=labels)
    for label, value in values.items():
        family.add_metric([label], value)
    return family


def _shown(found: Distribution, bounds: tuple[float, ...]) -> tuple[list[tuple[str, float]], float]:
    names = [*(str(float(bound)) for bound in bounds), "+Inf"]
    return list(zip(names, accumulate(found.counts), strict=True)), found.sum


SELF_TESTS: Final = Counter(
    "vpa_admission_controller_self_tests",
    "Self-tests, by what came of them.",
    ["outcome"],
)
SELF_TEST_PASSED: Final = Gauge(
    "vpa_admission_controller_self_test_passed",
    "1 if the last self-test passed, so that new pods get our patch; 0 if it failed.",
)
UPKEEP_STEPS: Final = Counter(
    "vpa_admission_controller_upkeep_steps",
    "Steps taken to keep the webhook registered and its certificate trusted, by kind.",
    ["step"],
)
UPKEEP_FAILURES: Final = Counter(
    "vpa_admission_controller_upkeep_failures",
    "Steps that failed, and will be tried again.",
)
CERTIFICATE_END: Final = Gauge(
    "vpa_admission_controller_certificate_expiry_timestamp_seconds",
    "When the certificate that is shown ends; 0 if it comes from files.",
)
