"""What is counted, as Prometheus sees it, beside the names of the original."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.reviews import Webhook, a_pod_object, a_review
from support.readers.metrics_page import differences

from reference.original_metrics import ADMISSION
from trimtab.admission.admit import AdmitOutcome
from trimtab.admission.metrics import AdmissionCollector
from trimtab.admission.reports import (
    AdmissionCounts,
    Reviewed,
    ReviewStatus,
    ReviewStep,
    ReviewTrouble,
    add_up,
    count_up,
)
from trimtab.cli.runtime.pages import format_metrics


def shown(*tallies: AdmissionCounts) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(AdmissionCollector(lambda: tallies, lambda: 3))
    return registry


def a_tally() -> AdmissionCounts:
    tally = AdmissionCounts()
    tally.pods.update(
        {AdmitOutcome.PATCHED: 5, AdmitOutcome.UNGOVERNED: 2, AdmitOutcome.COMPLETE: 1}
    )
    tally.time_review((ReviewStatus.APPLIED, Reviewed.POD), 0.003)
    tally.time_review((ReviewStatus.APPLIED, Reviewed.POD), 0.015)
    tally.time_steps((ReviewStep.ADMIT, 0.6))
    tally.shed = 4
    tally.troubles[ReviewTrouble.BROKEN] = 7
    tally.refused_connections[413] = 2
    tally.refused_autoscalers = 1
    return tally


def test_every_metric_is_what_it_is_in_the_original() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        webhook = Webhook(cluster)
        webhook.ask(a_review(a_pod_object()))

        assert differences(format_metrics(shown(webhook.tally)).decode(), ADMISSION) == {}

    run_virtually(scene())


@pytest.mark.parametrize(
    ("series", "value"),
    [
        pytest.param("admission_pods_total{applied='true'}", 5, id="pods that got something"),
        pytest.param("admission_pods_total{applied='false'}", 3, id="pods that got nothing"),
        pytest.param("pod_outcomes_total{outcome='Ungoverned'}", 2, id="why a pod got nothing"),
        pytest.param("pod_outcomes_total{outcome='Failed'}", 0, id="what never happened is zero"),
        pytest.param("shed_requests_total", 4, id="requests let through unseen"),
        pytest.param("misunderstood_reviews_total{reason='Broken'}", 7, id="broken reviews"),
        pytest.param("refused_connections_total{status='413'}", 2, id="bodies too large"),
        pytest.param("refused_autoscalers_total", 1, id="autoscalers refused"),
        pytest.param("connections", 3, id="open connections"),
        pytest.param(
            "admission_latency_seconds_bucket{le='0.01',resource='Pod',status='applied'}",
            1,
            id="quick reviews",
        ),
        pytest.param(
            "admission_latency_seconds_count{resource='Pod',status='applied'}",
            2,
            id="all reviews of pods",
        ),
        pytest.param(
            "execution_latency_seconds_bucket{le='0.5',step='admit'}", 0, id="a slow step"
        ),
        pytest.param("execution_latency_seconds_bucket{le='1.0',step='admit'}", 1, id="its bucket"),
        pytest.param("execution_latency_seconds_count{step='total'}", 0, id="a step without one"),
    ],
)
def test_what_was_counted_is_shown(series: str, value: float) -> None:
    text = generate_latest(shown(a_tally())).decode()
    line = f"vpa_admission_controller_{series}".replace("'", '"')

    assert f"{line} {float(value)}" in text.splitlines()


def test_the_original_counts_latencies_by_these_bounds() -> None:
    text = generate_latest(shown(a_tally())).decode()
    latencies = [line for line in text.splitlines() if "admission_latency_seconds_bucket" in line]
    steps = [
        line
        for line in text.splitlines()
        if "execution_latency_seconds_bucket" in line and 'step="admit"' in line
    ]

    assert len(latencies) == 21 + 1
    assert len(steps) == 23 + 1


@given(st.lists(st.lists(st.floats(0, 400), max_size=5), max_size=4))
def test_the_sum_of_tallies_is_the_tally_of_everything(shares: list[list[float]]) -> None:
    tallies, whole = [], AdmissionCounts()
    for share in shares:
        tally = AdmissionCounts()
        for seconds in share:
            for each in (tally, whole):
                count_up(each.pods, AdmitOutcome.PATCHED)
                each.time_review((ReviewStatus.APPLIED, Reviewed.POD), seconds)
                each.time_steps((ReviewStep.TOTAL, seconds))
        tallies.append(tally)
    total = add_up(tallies)

    assert total.pods == whole.pods
    assert total.steps[ReviewStep.TOTAL].counts == whole.steps[ReviewStep.TOTAL].counts
    assert total.steps[ReviewStep.TOTAL].sum == pytest.approx(whole.steps[ReviewStep.TOTAL].sum)
    assert {key: one.counts for key, one in total.latencies.items()} == {
        key: one.counts for key, one in whole.latencies.items()
    }


def test_a_tally_survives_the_way_to_another_process() -> None:
    tally = a_tally()
    there = msgspec.msgpack.encode(tally)

    assert msgspec.msgpack.decode(there, type=AdmissionCounts) == tally
