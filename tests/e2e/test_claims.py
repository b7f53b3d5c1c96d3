"""Autoscalers that are created, changed and deleted at once, against a real API server."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.makers.reviews import AUTOSCALERS, a_review, an_autoscaler_object
from support.stages.admission import (
    JSON_PATCH,
    Stage,
    Webhook,
    admission_controller,
    an_autoscaler,
)
from support.stages.components import install

from rig import waiting
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
Answer = tuple[int, Json]

AT_ONCE = 4
ROUNDS = 3


@pytest.fixture(scope="module")
def webhook(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    install(cluster)
    folder = tmp_path_factory.mktemp("claims")
    with (
        admission_controller(cluster.kubeconfig, folder) as it,
        it.registered(cluster, "vpa-webhook-config"),
    ):
        yield it


@pytest.fixture
def stage(webhook: Webhook, cluster: ControlPlane, namespace: str) -> Stage:
    assert webhook.port
    return Stage(cluster, namespace)


def at_once(act: Callable[[int], Answer]) -> list[Answer]:
    """Do something several times at the same moment."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(act, range(AT_ONCE)))


def create(stage: Stage, target: str, **metadata: str) -> Answer:
    manifest = {**an_autoscaler({}, "", target), "metadata": metadata}
    status, body = stage.plane.request("POST", stage.autoscalers, json.dumps(manifest).encode())
    return status, json.loads(body)


def retarget(stage: Stage, name: str, target: str) -> Answer:
    patch = [{"op": "replace", "path": "/spec/targetRef/name", "value": target}]
    path, body = f"{stage.autoscalers}/{name}", json.dumps(patch).encode()
    status, answer = stage.plane.request("PATCH", path, body, JSON_PATCH)
    return status, json.loads(answer)


def create_nth(stage: Stage, target: str, named: list[Json], number: int) -> Answer:
    return create(stage, target, **named[number])


def retarget_nth(stage: Stage, target: str, number: int) -> Answer:
    return retarget(stage, f"web-{number}", target)


def reselect_nth(stage: Stage, role: str, number: int) -> Answer:
    patch = [{"op": "replace", "path": "/spec/selector/matchLabels/role", "value": role}]
    path, body = f"{stage.autoscalers}/web-{number}", json.dumps(patch).encode()
    status, answer = stage.plane.request("PATCH", path, body, JSON_PATCH)
    return status, json.loads(answer)


def delete(stage: Stage, name: str) -> None:
    status, body = stage.plane.request("DELETE", f"{stage.autoscalers}/{name}")
    assert status == 200, body


def count_of(stage: Stage, target: str) -> int:
    _, body = stage.plane.request("GET", stage.autoscalers)
    items = json.loads(body)["items"]
    return sum(each["spec"]["targetRef"]["name"] == target for each in items)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(lambda number: {"name": f"web-{number}"}, id="with names"),
        pytest.param(lambda _: {"generateName": "web-"}, id="with generated names"),
    ],
)
def test_of_several_that_are_created_at_once_exactly_one_is_stored(
    stage: Stage, name: Callable[[int], Json]
) -> None:
    for turn in range(ROUNDS):
        target = f"target-{turn}"
        named = [name(10 * turn + number) for number in range(AT_ONCE)]
        answers = at_once(partial(create_nth, stage, target, named))

        assert sorted(status for status, _ in answers) == [201, 422, 422, 422]
        assert count_of(stage, target) == 1


def test_of_several_that_are_changed_at_once_exactly_one_gets_the_target(stage: Stage) -> None:
    for number in range(AT_ONCE):
        assert create(stage, f"own-{number}", name=f"web-{number}")[0] == 201
    for turn in range(ROUNDS):
        target = f"target-{turn}"
        answers = at_once(partial(retarget_nth, stage, target))

        assert sorted(status for status, _ in answers) == [200, 422, 422, 422]
        assert count_of(stage, target) == 1


def test_of_several_that_are_changed_at_once_exactly_one_gets_the_selector(stage: Stage) -> None:
    for number in range(AT_ONCE):
        spec = {
            "selector": {"matchLabels": {"role": f"own-{number}"}},
            "updatePolicy": {"updateMode": "InPlace"},
        }
        stage.autoscale(spec, name=f"web-{number}", target="web")
    for turn in range(ROUNDS):
        answers = at_once(partial(reselect_nth, stage, f"role-{turn}"))

        assert sorted(status for status, _ in answers) == [200, 422, 422, 422]


@pytest.mark.parametrize(
    "pause_seconds",
    [pytest.param(0.0, id="at once"), pytest.param(0.1, id="soon"), pytest.param(1.0, id="later")],
)
def test_one_that_was_deleted_refuses_no_other(stage: Stage, pause_seconds: float) -> None:
    for turn in range(ROUNDS):
        assert create(stage, "web", name=f"old-{turn}")[0] == 201
        time.sleep(pause_seconds)
        delete(stage, f"old-{turn}")
        status, answer = create(stage, "web", name=f"new-{turn}")
        delete(stage, f"new-{turn}")

        assert status == 201, answer


@pytest.mark.parametrize("name", ["Bad_Name", "x" * 254])
def test_one_that_is_refused_for_its_name_does_not_refuse_the_corrected_one(
    stage: Stage, name: str
) -> None:
    refused, _ = create(stage, "web", name=name)
    status, answer = create(stage, "web", name="corrected")

    assert refused == 422
    assert status == 201, answer


def test_a_forged_review_refuses_no_autoscaler_of_another(stage: Stage, webhook: Webhook) -> None:
    for number in range(50):
        forged = an_autoscaler_object(f"forged-{number}", "web")
        assert forge(webhook, a_review(forged, AUTOSCALERS, namespace=stage.namespace))
    status, answer = create(stage, "web", name="real")

    assert status == 201, answer


def forge(webhook: Webhook, review: Json) -> bool:
    """Ask the webhook as any pod of the cluster can; return what it says."""
    context = ssl.create_default_context(cadata=webhook.bundle)
    context.check_hostname = False
    connection = http.client.HTTPSConnection(LOOPBACK, webhook.port, timeout=10, context=context)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/", json.dumps(review).encode(), headers)
        allowed: bool = json.loads(connection.getresponse().read())["response"]["allowed"]
        return allowed
    finally:
        connection.close()


def test_several_processes_refuse_a_further_one_once_their_watches_show_the_first(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """Processes share no claims: of several created at once, more than one may be stored."""
    install(cluster)
    stage = Stage(cluster, namespace)
    with (
        admission_controller(cluster.kubeconfig, tmp_path, "--workers=2") as it,
        it.registered(cluster, f"claims-{namespace}"),
    ):
        answers = at_once(lambda number: create(stage, "web", name=f"web-{number}"))
        waiting.wait_for(
            lambda: [create(stage, "web", name=f"late-{number}")[0] for number in range(8)],
            lambda found: found == [422] * 8,
        )

    assert 201 in [status for status, _ in answers]
