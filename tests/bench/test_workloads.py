import json
from datetime import UTC, datetime
from random import Random

from bench import workloads
from bench.usage_server import Answers
from bench.workloads import CONTAINERS, PODS, Swing, Workload
from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.checkpoints import decode_checkpoint, encode_checkpoint
from trimtab.api.kinds.pods import decode_pod
from trimtab.api.kinds.workloads import decode_workload
from trimtab.api.usage.pod_metrics import decode_pod_metrics
from trimtab.core.changes.change import Change, measure_change
from trimtab.core.histogram.buckets import CPU_BUCKETS
from trimtab.core.histogram.checkpoint import decode_aggregate
from trimtab.core.model.pods import PodPhase

NOW = datetime(2026, 11, 16, 7, tzinfo=UTC)
IT = Workload(1234)


def encoded(manifest: object) -> bytes:
    return json.dumps(manifest).encode()


def test_the_pods_of_a_workload_run_and_are_those_that_its_deployment_selects() -> None:
    manifest = workloads.pod(IT, IT.pods[0]) | {"status": workloads.running_status(NOW)}
    pod = decode_pod(encoded(manifest))
    deployment = decode_workload("Deployment", encoded(workloads.deployment(IT)))

    assert pod.phase is PodPhase.RUNNING
    assert deployment.selector is not None
    assert deployment.selector.matches(pod.labels)
    assert pod.owner is not None
    assert pod.owner.name == IT.owner


def test_the_autoscaler_is_for_the_deployment_in_its_namespace() -> None:
    found = decode_autoscaler(encoded(workloads.autoscaler(IT)))

    assert found.target is not None
    assert (found.namespace, found.target.name) == (IT.namespace, IT.name)


def test_every_history_can_be_loaded() -> None:
    for number in range(200):
        stored = list(workloads.checkpoints(Workload(number), NOW))
        for checkpoint in stored:
            again = decode_checkpoint(encode_checkpoint(checkpoint))
            content = decode_aggregate(again.aggregate)

            assert content.cpu.total_weight > 100
            assert content.memory.total_weight > 1
        assert [one.container_name for one in stored] == list(CONTAINERS)


def test_wide_usage_lies_between_half_and_one_and_a_half_times_the_average() -> None:
    (appetite, *_) = IT.appetites().values()
    chance = Random(1)
    drawn = [Swing.WIDE.draw(appetite, chance) for _ in range(1000)]
    shares = [one.cpu_cores / appetite.cpu_cores for one in drawn]

    assert 0.5 <= min(shares) < 0.55
    assert 1.45 < max(shares) <= 1.5
    assert {one.memory_bytes > appetite.memory_bytes for one in drawn} == {False, True}


def test_histories_of_wide_usage_are_as_wide() -> None:
    (wide, *_) = workloads.checkpoints(IT, NOW, Swing.WIDE)
    _, *inner, _ = wide.aggregate.cpu_histogram.bucket_weights.values()

    # Buckets grow by 5 %, and the edges are not filled.
    assert min(inner) > 0.4 * max(inner)
    assert 2 < CPU_BUCKETS.ratio ** (len(inner) + 1) < 4
    assert decode_aggregate(wide.aggregate).cpu.total_weight > 100


def test_usage_is_told_of_every_container_and_differs_from_answer_to_answer() -> None:
    answers = Answers([IT, Workload(7)], count=2)
    told = [decode_pod_metrics(answers.tell(NOW)) for _ in range(3)]
    columns = [columns for columns, _ in told]

    assert len(columns[0].pods) == 2 * PODS * len(CONTAINERS)
    assert set(columns[0].pods[:4]) == set(IT.pods)
    assert set(columns[0].times) == {NOW.timestamp()}
    assert columns[0].cpu_millicores != columns[1].cpu_millicores
    assert columns[0] == columns[2]
    assert not any(unreadable for _, unreadable in told)


def test_urgency_is_that_of_pods_with_the_usual_amounts_and_what_is_recommended() -> None:
    for number in range(200):
        workload = Workload(number)
        recommended = {"status": workloads.recommended_status(workload)}
        autoscaler = decode_autoscaler(encoded(workloads.acting_autoscaler(workload) | recommended))
        pod = decode_pod(encoded(workloads.pod(workload, workload.pods[0])))
        change = measure_change(pod, autoscaler.recommendation or ())
        grows, share = workloads.urgency(workload)

        assert (change.outside_bounds, change.scale_up) == (True, grows)
        assert abs(change.relative_difference - share) < 0.02


def test_pods_that_have_enough_have_what_is_recommended() -> None:
    made = workloads.mortal_pod(IT, IT.pods[0], workloads.NO_UID, workloads.enough(IT))
    recommended = {"status": workloads.recommended_status(IT)}
    autoscaler = decode_autoscaler(encoded(workloads.acting_autoscaler(IT) | recommended))

    assert measure_change(decode_pod(encoded(made)), autoscaler.recommendation or ()) == Change()
