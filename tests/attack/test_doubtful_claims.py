"""A watch that lags behind a deletion: no healthy autoscaler is refused because of the dead one.

The webhook runs as a process. Its watch shows `old` for ever; lookups say what a test wants.
"""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from itertools import count

import pytest
from attack import webhook as processes
from attack.conftest import a_good_review
from attack.webhook import LOOPBACK, NAMESPACE, Json, Shown, Webhook
from support.makers.reviews import AUTOSCALERS, a_pod_object, a_review, an_autoscaler_object
from support.servers.api_server import Asked, Response, ok, refused

TARGET = "shopfront"
TENANT = "tenant"
TURNS = 5
"""Number of autoscalers that are created beside each flood."""
FLOOD_SECONDS = 20
"""A flood ends by itself after so much time."""
HEADERS = {"Content-Type": "application/json"}

_numbers = count()


@dataclass(slots=True)
class Lookups:
    """Answers of the API server to lookups of single autoscalers."""

    seconds: float = 0.0
    status: int = 200
    exists: bool = False
    """True if `old` is there."""

    def answer(self, asked: Asked) -> Response:
        if self.status != 200:
            return refused(self.status)
        time.sleep(self.seconds)
        is_there = self.exists and asked.query["fieldSelector"] == "metadata.name=old"
        items = [an_autoscaler_in(NAMESPACE, "old")] if is_there else []
        return ok({"metadata": {"resourceVersion": "9"}, "items": items})


class Lagging(Shown):
    """A cluster whose watch shows `old`, whatever has become of it."""

    def __init__(self, lookups: Lookups) -> None:
        super().__init__()
        self.lookups = lookups
        processes.a_small_cluster(self)
        for namespace in (NAMESPACE, TENANT):
            self.add_object("verticalpodautoscalers", an_autoscaler_in(namespace, "old"))

    def answer(self, asked: Asked) -> Response:
        is_lookup = "fieldSelector" in asked.query
        return self.lookups.answer(asked) if is_lookup else Shown.answer(self, asked)


@dataclass(frozen=True, slots=True)
class Scene:
    webhook: Webhook
    lookups: Lookups


@pytest.fixture
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    lookups = Lookups()
    folder = tmp_path_factory.mktemp("claims")
    with processes.running(folder, a_good_review(), Lagging(lookups)) as webhook:
        yield Scene(webhook, lookups)


def an_autoscaler_in(namespace: str, name: str) -> Json:
    found = an_autoscaler_object(name, TARGET)
    found["metadata"]["namespace"] = namespace
    return found


def create(webhook: Webhook, annotation_bytes: int = 0) -> Json:
    """Try out the creation of a new autoscaler of the target that `old` has."""
    new = an_autoscaler_in(NAMESPACE, f"new-{next(_numbers)}")
    new["metadata"]["annotations"] = {"note": "x" * annotation_bytes}
    return webhook.ask(a_review(new, AUTOSCALERS, dryRun=True))


@contextmanager
def flooded(webhook: Webhook, make_review: Callable[[], Json], connections: int) -> Iterator[None]:
    """Send reviews on so many connections at a time for as long as the block lasts."""
    stopping = threading.Event()
    ends_at = time.monotonic() + FLOOD_SECONDS

    def send() -> None:
        connection = HTTPSConnection(LOOPBACK, webhook.port, context=webhook.trust, timeout=10)
        while not stopping.is_set() and time.monotonic() < ends_at:
            with suppress(OSError, HTTPException):
                connection.request("POST", "/", json.dumps(make_review()).encode(), HEADERS)
                connection.getresponse().read()
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(connections)]
    for each in threads:
        each.start()
    try:
        time.sleep(1.5)
        yield
    finally:
        stopping.set()
        for each in threads:
            each.join()


def an_autoscaler_that_waits() -> Json:
    """Ask for one of many autoscalers of one target, with a name that is still to be generated."""
    waiting = an_autoscaler_object("", "elsewhere")
    waiting["metadata"] = {"generateName": "waiting-", "namespace": TENANT}
    uid = f"waiting-{next(_numbers)}"
    return a_review(waiting, AUTOSCALERS, namespace=TENANT, uid=uid)


def a_pod_that_waits() -> Json:
    """Ask about a pod of a ReplicaSet that does not exist."""
    pod = a_pod_object()
    name = f"unknown-{next(_numbers)}"
    pod["metadata"]["ownerReferences"][0] |= {"name": name, "uid": name}
    return a_review(pod, namespace=TENANT, uid=name, dryRun=True)


FLOODS = [
    pytest.param(an_autoscaler_that_waits, 150, id="autoscalers that wait"),
    pytest.param(a_pod_that_waits, 150, id="pods that wait"),
]


def test_lookups_that_take_their_time_count(scene: Scene) -> None:
    for seconds in (0.0, 0.2, 0.4, 0.9, 1.5):
        scene.lookups.seconds = seconds
        scene.lookups.exists = False
        gone = create(scene.webhook)
        scene.lookups.exists = True
        there = create(scene.webhook)

        assert gone["allowed"], (seconds, gone)
        assert not gone.get("warnings"), (seconds, gone)
        assert not there["allowed"], seconds
        assert '"old"' in there["status"]["message"]


@pytest.mark.parametrize("annotation_bytes", [70_000, 1_000_000])
def test_a_large_autoscaler_waits_for_a_lookup_too(scene: Scene, annotation_bytes: int) -> None:
    gone = create(scene.webhook, annotation_bytes)
    scene.lookups.exists = True
    there = create(scene.webhook, annotation_bytes)

    assert gone["allowed"], gone
    assert not gone.get("warnings"), gone
    assert not there["allowed"]


@pytest.mark.parametrize(("make_review", "connections"), FLOODS)
def test_a_tenant_that_makes_requests_wait_takes_up_no_room_of_others(
    scene: Scene, make_review: Callable[[], Json], connections: int
) -> None:
    with flooded(scene.webhook, make_review, connections):
        gone = [create(scene.webhook) for _ in range(TURNS)]
        scene.lookups.exists = True
        there = [create(scene.webhook) for _ in range(TURNS)]

    assert [each["allowed"] for each in gone] == [True] * TURNS, gone
    assert [each.get("warnings") for each in gone] == [None] * TURNS
    assert [each["allowed"] for each in there] == [False] * TURNS


@pytest.mark.parametrize("status", [403, 429, 500])
def test_a_lookup_that_is_refused_refuses_no_autoscaler(scene: Scene, status: int) -> None:
    scene.lookups.status = status
    response = create(scene.webhook)

    assert response["allowed"], response
    (warning,) = response["warnings"]
    assert '"old"' in warning
    assert "ConfigConflict" in warning


def test_a_webhook_that_ends_refuses_no_autoscaler_on_doubt(scene: Scene) -> None:
    scene.lookups.status = 500
    answers: list[Json] = []
    asking = threading.Thread(target=lambda: answers.append(create(scene.webhook)))
    asking.start()
    time.sleep(0.5)
    scene.webhook.process.send_signal(signal.SIGTERM)
    asking.join()

    assert [each["allowed"] for each in answers] == [True]
    assert len(answers[0]["warnings"]) == 1
