"""Work for the review of a pod whose like did not come before."""

import json
import random
import sys
from collections.abc import Callable
from types import FrameType

from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.records import MIB, a_recommendation, amounts
from support.makers.reviews import Json, Webhook, a_pod_object, a_review

from trimtab.admission.admit import Admission
from trimtab.admission.sizing_cache import IncomingPod
from trimtab.api.http.requests import HttpRequest

WORKLOADS, SIZES = 200, 4
MOST_CALLS = 212
"""Python functions that one review may call; they were 471 once."""
MOST_CALLS_AGAIN = 92
"""The same for a pod whose like came before."""


def a_pod_of(number: int, size: int) -> Json:
    pod = a_pod_object()
    pod["metadata"]["labels"] = {"app": f"web{number}"}
    pod["metadata"]["ownerReferences"][0] |= {"name": f"web{number}-1", "uid": f"rs-web{number}"}
    requests = {"cpu": f"{100 + size}m", "memory": "100Mi"}
    pod["spec"]["containers"] = [
        {"name": name, "resources": {"requests": requests}} for name in ("app", "proxy")
    ]
    return pod


def a_webhook() -> Webhook:
    cluster = UpdaterCluster()
    target = amounts(500, 500 * MIB)
    for number in range(WORKLOADS):
        cluster.deploy(f"web{number}", replicas=0)
        recommended = [a_recommendation(name, target=target) for name in ("app", "proxy")]
        cluster.autoscale(*recommended, name=f"web{number}")
    return Webhook(cluster)


def requests_in_random_order() -> list[HttpRequest]:
    pods = [a_pod_of(number, size) for number in range(WORKLOADS) for size in range(SIZES)]
    random.Random(1).shuffle(pods)
    return [
        HttpRequest({"content-type": "application/json"}, json.dumps(a_review(each)).encode())
        for each in pods
    ]


def count_calls(act: Callable[[], object]) -> int:
    """Count the Python functions that something calls."""
    calls = 0

    def note(frame: FrameType, event: str, found: object) -> None:
        nonlocal calls
        del frame, found
        calls += event == "call"

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def test_a_pod_that_is_like_none_before_costs_few_calls() -> None:
    async def scene() -> None:
        webhook = a_webhook()
        first, *others = requests_in_random_order()
        webhook.answering.answer(first, 0.0)

        calls = count_calls(lambda: [webhook.answering.answer(each, 0.0) for each in others])

        assert calls / len(others) < MOST_CALLS

        calls = count_calls(lambda: [webhook.answering.answer(each, 0.0) for each in others])

        assert calls / len(others) < MOST_CALLS_AGAIN

    run_virtually(scene())


def test_pods_of_many_workloads_and_sizes_are_read_once_each() -> None:
    async def scene() -> None:
        webhook = a_webhook()
        sent = requests_in_random_order()
        answers = [webhook.answering.answer(each, 0.0) for each in sent]
        read = _count_reads(webhook.admission)

        assert [webhook.answering.answer(each, 0.0) for each in sent] == answers
        assert read == []

    run_virtually(scene())


def _count_reads(admission: Admission) -> list[object]:
    """Return a list that gets an entry for each pod that is read whole from now on."""
    found: list[object] = []
    size = admission.size

    def watch(new: IncomingPod, **more: bool) -> object:
        read = new.read
        new.read = lambda: (found.append(new), read())[1]  # type: ignore[method-assign, func-returns-value]
        return size(new, **more)

    admission.size = watch  # type: ignore[method-assign, assignment]
    return found
