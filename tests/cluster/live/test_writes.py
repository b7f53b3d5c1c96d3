"""What each act asks of the server, and what it makes of the answers."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest
from aiohttp import web
from msgspec import structs
from support.fakes.checkpoint_store import Checkpoints
from support.fakes.clocks import StillClock
from support.makers.records import MIB, NOW, a_container, a_pod, amounts, an_autoscaler, minutes
from support.servers.api_server import (
    Answer,
    Asked,
    Server,
    a_client,
    in_turn,
    ok,
    refused,
    serving,
)

from trimtab.api.kinds.checkpoints import FINGERPRINT, Checkpoint
from trimtab.api.kinds.events import Event, about_autoscaler, about_pod
from trimtab.api.kinds.leases import Lease
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.errors import (
    ApiError,
    BudgetError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from trimtab.cluster.live.writes import Acts
from trimtab.core.histogram.checkpoint import AggregateCheckpoint
from trimtab.core.model.autoscalers import AutoscalerName, Condition, ContainerRecommendation
from trimtab.core.model.json_patch import Add, Remove

NAMESPACED = "/api/v1/namespaces/default"
AUTOSCALING = "/apis/autoscaling.k8s.io/v1/namespaces/default"
CHECKPOINTS = f"{AUTOSCALING}/verticalpodautoscalercheckpoints"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@asynccontextmanager
async def acting(answer: Answer, *stored: Checkpoint) -> AsyncIterator[tuple[Acts, Server]]:
    async with serving(answer) as server, a_client(server.url) as client:
        yield Acts(client, Checkpoints(*stored)), server


def always_ok(_asked: Asked) -> web.Response:
    return ok()


POD = a_pod(name="web-0", uid="u-1", resource_version="17")


async def test_an_eviction_holds_only_for_the_pod_in_the_version_that_was_seen() -> None:
    async with acting(always_ok) as (acts, server):
        await acts.evict(POD)

    assert server.calls == [f"POST {NAMESPACED}/pods/web-0/eviction"]
    assert server.asked[0].json == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-0", "namespace": "default"},
        "deleteOptions": {"preconditions": {"uid": "u-1", "resourceVersion": "17"}},
    }


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(refused(429, causes=["DisruptionBudget"]), BudgetError, id="a budget"),
        pytest.param(refused(409), ConflictError, id="another pod or version"),
        pytest.param(refused(404), NotFoundError, id="a pod that is gone"),
        pytest.param(refused(403), ForbiddenError, id="a missing right"),
        pytest.param(refused(500), ApiError, id="two budgets for one pod"),
    ],
)
async def test_an_eviction_that_is_refused_is_tried_once_and_told_apart(
    answer: web.Response, kind: type[ApiError]
) -> None:
    async with acting(in_turn(answer)) as (acts, server):
        with pytest.raises(kind):
            await acts.evict(POD)

    assert len(server.asked) == 1


async def test_a_trial_of_an_eviction_says_that_it_is_one() -> None:
    async with acting(always_ok) as (acts, server):
        await acts.try_eviction(POD)

    assert server.calls == [f"POST {NAMESPACED}/pods/web-0/eviction"]
    assert server.asked[0].query == {"dryRun": "All"}


async def test_a_resize_patches_the_subresource_of_the_very_pod() -> None:
    patch = (Add("/spec/containers/0/resources/requests/cpu", "250m"),)
    async with acting(always_ok) as (acts, server):
        await acts.resize(POD, patch)

    assert server.calls == [f"PATCH {NAMESPACED}/pods/web-0/resize"]
    assert server.asked[0].headers["Content-Type"] == "application/json-patch+json"
    assert server.asked[0].json == [
        {"op": "test", "path": "/metadata/uid", "value": "u-1"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "17"},
        {"op": "add", "path": "/spec/containers/0/resources/requests/cpu", "value": "250m"},
    ]


def listed_pod(*, version: str, uid: str = "u-1", cpu: str = "100m") -> web.Response:
    """A list of one pod, as the server has it now."""
    requests = {"cpu": cpu, "memory": f"{100 * MIB}"}
    spec = {"containers": [{"name": "app", "resources": {"requests": requests}}]}
    metadata = {"name": "web-0", "namespace": "default", "uid": uid, "resourceVersion": version}
    return ok({"items": [{"metadata": metadata, "spec": spec}]})


def not_applied() -> web.Response:
    return refused(422, reason="Invalid")


SIZED = a_pod(a_container(requests=amounts(100, 100 * MIB)), name="web-0", uid="u-1")
SEEN = structs.replace(SIZED, resource_version="17")


async def test_a_resize_is_sent_again_if_only_something_else_of_the_pod_has_changed() -> None:
    answers = in_turn(not_applied(), listed_pod(version="18"), ok())
    async with acting(answers) as (acts, server):
        await acts.resize(SEEN, ())

    assert server.calls == [
        f"PATCH {NAMESPACED}/pods/web-0/resize",
        f"GET {NAMESPACED}/pods",
        f"PATCH {NAMESPACED}/pods/web-0/resize",
    ]
    assert server.asked[1].query == {"fieldSelector": "metadata.name=web-0"}
    assert server.asked[2].json[1]["value"] == "18"


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(listed_pod(version="18", cpu="600m"), id="another size"),
        pytest.param(listed_pod(version="18", uid="u-2"), id="another pod"),
        pytest.param(ok({"items": []}), id="no pod"),
        pytest.param(refused(403), id="no answer to that"),
    ],
)
async def test_a_resize_of_a_pod_whose_size_was_set_since_is_a_conflict(
    found: web.Response,
) -> None:
    async with acting(in_turn(not_applied(), found)) as (acts, server):
        with pytest.raises(ConflictError):
            await acts.resize(SEEN, ())

    assert len(server.asked) == 2


async def test_a_resize_of_a_pod_that_never_stays_the_same_is_a_conflict_in_the_end() -> None:
    versions = [listed_pod(version=f"{number}") for number in (18, 19, 20)]
    answers = [answer for version in versions for answer in (not_applied(), version)]
    async with acting(in_turn(*answers)) as (acts, server):
        with pytest.raises(ConflictError):
            await acts.resize(SEEN, ())

    assert len(server.asked) == 6


async def test_a_resize_of_the_seen_pod_that_is_refused_without_causes_is_invalid() -> None:
    async with acting(in_turn(not_applied(), listed_pod(version="17"))) as (acts, _):
        with pytest.raises(InvalidError):
            await acts.resize(SEEN, ())


async def test_a_patch_of_a_pod_keeps_the_order_of_its_operations() -> None:
    patch = (Add("/metadata/annotations", {"a": "b"}), Remove("/metadata/annotations/c"))
    async with acting(always_ok) as (acts, server):
        await acts.patch_pod(POD, patch)

    assert server.calls == [f"PATCH {NAMESPACED}/pods/web-0"]
    assert [entry["op"] for entry in server.asked[0].json] == ["test", "add", "remove"]
    assert server.asked[0].json[2] == {"op": "remove", "path": "/metadata/annotations/c"}


async def test_a_patch_that_does_not_apply_means_that_the_pod_is_not_what_was_seen() -> None:
    async with acting(in_turn(refused(422, reason="Invalid"))) as (acts, _):
        with pytest.raises(ConflictError) as caught:
            await acts.patch_pod(POD, ())

    assert isinstance(caught.value.__cause__, InvalidError)


async def test_a_patch_whose_result_is_not_valid_stays_invalid() -> None:
    async with acting(in_turn(refused(422, causes=["FieldValueInvalid"]))) as (acts, _):
        with pytest.raises(InvalidError) as caught:
            await acts.resize(POD, ())

    assert caught.value.causes[0].reason == "FieldValueInvalid"


RECOMMENDATION = (ContainerRecommendation("app", amounts(250, 512 * MIB)),)
CONDITION = Condition("RecommendationProvided", "True", last_transition_time=NOW)


def published(**fields: Any) -> Any:
    usual: dict[str, Any] = {
        "generation": 3,
        "observed_generation": 3,
        "conditions": (CONDITION,),
    }
    return an_autoscaler(*RECOMMENDATION, **(usual | fields))


async def test_a_new_status_is_written_as_a_whole_with_the_generation_that_was_seen() -> None:
    autoscaler = an_autoscaler(generation=3)
    async with acting(always_ok) as (acts, server):
        await acts.publish_status(autoscaler, RECOMMENDATION, (CONDITION,))

    status = server.asked[0].json[0]["value"]
    assert server.calls == [f"PATCH {AUTOSCALING}/verticalpodautoscalers/web/status"]
    assert status["observedGeneration"] == 3
    assert status["conditions"][0]["type"] == "RecommendationProvided"
    container = status["recommendation"]["containerRecommendations"][0]
    assert container["target"] == {"cpu": "250m", "memory": "512Mi"}


@pytest.mark.parametrize(
    "conditions",
    [
        pytest.param((CONDITION,), id="equal to the last bit"),
        pytest.param(
            (replace(CONDITION, last_transition_time=NOW + timedelta(milliseconds=900)),),
            id="equal as far as the wire tells",
        ),
    ],
)
async def test_a_status_that_would_not_change_is_not_written(
    conditions: tuple[Condition, ...],
) -> None:
    async with acting(always_ok) as (acts, server):
        await acts.publish_status(published(), RECOMMENDATION, conditions)

    assert server.asked == []


@pytest.mark.parametrize(
    ("autoscaler", "recommendation"),
    [
        pytest.param(published(), (), id="another recommendation"),
        pytest.param(published(conditions=()), RECOMMENDATION, id="another condition"),
        pytest.param(published(generation=4), RECOMMENDATION, id="another generation"),
        pytest.param(published(recommendation=None), (), id="none and an empty one differ"),
    ],
)
async def test_a_status_that_differs_in_anything_is_written(
    autoscaler: Any, recommendation: tuple[ContainerRecommendation, ...]
) -> None:
    async with acting(always_ok) as (acts, server):
        await acts.publish_status(autoscaler, recommendation, (CONDITION,))

    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("autoscaler", "seconds"),
    [
        pytest.param(an_autoscaler(), 0, id="a first recommendation does not wait"),
        pytest.param(published(conditions=()), 2, id="a later one keeps to the budget"),
    ],
)
async def test_only_first_recommendations_are_exempt_from_the_budget(
    autoscaler: Any, seconds: int
) -> None:
    clock = StillClock()
    async with serving(always_ok) as server, a_client(server.url, clock=clock, rate=1) as client:
        acts = Acts(client, Checkpoints())
        for _ in range(3):
            await acts.publish_status(autoscaler, RECOMMENDATION, (CONDITION,))
        before = clock.now()
        await client.fetch("/version")

    assert before == NOW + timedelta(seconds=seconds)
    assert clock.now() - before == timedelta(seconds=1 if seconds else 0)


HELD = Condition("UpdatesHeld", "True", last_transition_time=NOW)


async def test_conditions_are_written_alone_and_only_onto_the_version_that_was_seen() -> None:
    async with acting(always_ok) as (acts, server):
        await acts.publish_conditions(published(resource_version="7"), (CONDITION, HELD))

    seen, written = server.asked[0].json
    assert server.calls == [f"PATCH {AUTOSCALING}/verticalpodautoscalers/web/status"]
    assert seen == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert written["path"] == "/status/conditions"
    assert [entry["type"] for entry in written["value"]] == [
        "RecommendationProvided",
        "UpdatesHeld",
    ]


async def test_where_there_may_be_no_status_conditions_bring_their_own() -> None:
    async with acting(always_ok) as (acts, server):
        await acts.publish_conditions(an_autoscaler(), (HELD,))

    written = server.asked[0].json[1]
    assert written["path"] == "/status"
    assert [entry["type"] for entry in written["value"]["conditions"]] == ["UpdatesHeld"]


async def test_conditions_that_would_not_change_are_not_written() -> None:
    async with acting(always_ok) as (acts, server):
        await acts.publish_conditions(published(), (CONDITION,))

    assert server.asked == []


async def test_conditions_for_another_version_than_was_seen_are_a_conflict() -> None:
    async with acting(in_turn(refused(422, reason="Invalid"))) as (acts, _):
        with pytest.raises(ConflictError):
            await acts.publish_conditions(published(), (HELD,))


CHECKPOINT = Checkpoint("default", "web", "app", AggregateCheckpoint(total_samples_count=5))


async def test_a_checkpoint_that_the_store_knows_is_patched() -> None:
    async with acting(always_ok, CHECKPOINT) as (acts, server):
        await acts.save_checkpoint(CHECKPOINT)

    assert server.calls == [f"PATCH {CHECKPOINTS}/web-app"]
    assert [entry["path"] for entry in server.asked[0].json] == ["/status"]


async def test_a_checkpoint_that_nobody_knows_is_made() -> None:
    async with acting(always_ok) as (acts, server):
        await acts.save_checkpoint(CHECKPOINT)

    assert server.calls == [f"POST {CHECKPOINTS}"]
    assert server.asked[0].json["metadata"]["name"] == "web-app"


async def test_a_checkpoint_that_only_the_server_knows_is_read_and_patched() -> None:
    there = ok({"metadata": {"name": "web-app", "annotations": {"other": "kept"}}})
    wanted = replace(CHECKPOINT, annotations={FINGERPRINT: "some"})
    async with acting(in_turn(refused(409), there, ok())) as (acts, server):
        await acts.save_checkpoint(wanted)

    assert [call.partition(" ")[0] for call in server.calls] == ["POST", "GET", "PATCH"]
    assert server.asked[2].json[1]["value"] == {"other": "kept", FINGERPRINT: "some"}


async def test_a_checkpoint_of_another_autoscaler_with_that_name_is_not_overwritten() -> None:
    other = {"vpaObjectName": "web-app", "containerName": "x"}
    there = ok({"metadata": {"name": "web-app-x"}, "spec": other})
    ours = replace(CHECKPOINT, container_name="app-x")
    async with acting(in_turn(refused(409), there)) as (acts, server):
        with pytest.raises(ConflictError):
            await acts.save_checkpoint(ours)

    assert [call.partition(" ")[0] for call in server.calls] == ["POST", "GET"]


async def test_a_checkpoint_that_only_the_store_knows_is_made_again() -> None:
    async with acting(in_turn(refused(404), ok()), CHECKPOINT) as (acts, server):
        await acts.save_checkpoint(CHECKPOINT)

    assert server.calls == [f"PATCH {CHECKPOINTS}/web-app", f"POST {CHECKPOINTS}"]


async def test_a_checkpoint_that_cannot_be_written_is_an_error() -> None:
    async with acting(in_turn(refused(403)), CHECKPOINT) as (acts, _):
        with pytest.raises(ForbiddenError):
            await acts.save_checkpoint(CHECKPOINT)


@pytest.mark.parametrize("answer", [ok(), refused(404)])
async def test_a_checkpoint_is_deleted_or_gone_already(answer: web.Response) -> None:
    async with acting(in_turn(answer)) as (acts, server):
        await acts.delete_checkpoint("default", "web-app")

    assert server.calls == [f"DELETE {CHECKPOINTS}/web-app"]


async def test_a_checkpoint_is_deleted_in_the_version_that_was_seen() -> None:
    async with acting(in_turn(refused(409))) as (acts, server):
        with pytest.raises(ConflictError):
            await acts.delete_checkpoint("default", "web-app", "17")

    assert server.asked[0].json["preconditions"] == {"resourceVersion": "17"}


A_READABLE = {"metadata": {"namespace": "default", "name": "web"}}


@pytest.mark.parametrize(
    ("items", "is_there"),
    [
        pytest.param([], False, id="none"),
        pytest.param([A_READABLE], True, id="one"),
        pytest.param([{**A_READABLE, "spec": 7}], True, id="one that cannot be read"),
    ],
)
async def test_whether_there_is_an_autoscaler_is_asked_of_the_server(
    items: list[object], *, is_there: bool
) -> None:
    async with acting(in_turn(ok({"items": items}))) as (acts, server):
        assert await acts.has_autoscaler(AutoscalerName("default", "web")) is is_there

    (asked,) = server.asked
    assert asked.query == {"fieldSelector": "metadata.name=web"}


@pytest.mark.parametrize(
    ("items", "name"),
    [pytest.param([], None, id="none"), pytest.param([A_READABLE], "web", id="one")],
)
async def test_an_autoscaler_is_fetched_from_the_server(
    items: list[object], name: str | None
) -> None:
    async with acting(in_turn(ok({"items": items}))) as (acts, server):
        found = await acts.fetch_autoscaler(AutoscalerName("default", "web"))

    assert (found and found.name) == name
    assert server.asked[0].query == {"fieldSelector": "metadata.name=web"}


async def test_an_autoscaler_that_cannot_be_read_is_not_taken_for_none() -> None:
    async with acting(in_turn(ok({"items": [{**A_READABLE, "spec": 7}]}))) as (acts, _):
        with pytest.raises(DecodeError):
            await acts.fetch_autoscaler(AutoscalerName("default", "web"))


async def test_a_cluster_that_does_not_serve_autoscalers_has_not_lost_one() -> None:
    async with acting(in_turn(refused(404))) as (acts, _):
        with pytest.raises(NotFoundError):
            await acts.has_autoscaler(AutoscalerName("default", "web"))


LEASE = Lease("kube-system", "vpa-updater", holder="me", duration=timedelta(seconds=15))


def answer_lease(asked: Asked) -> web.Response:
    document = asked.json
    document["metadata"]["resourceVersion"] = "18"
    return ok(document)


async def test_a_lease_without_a_version_is_created() -> None:
    async with acting(answer_lease) as (acts, server):
        written = await acts.write_lease(LEASE)

    assert server.calls == [f"POST {LEASES}"]
    assert written == replace(LEASE, resource_version="18")


async def test_a_lease_with_a_version_replaces_that_version() -> None:
    async with acting(answer_lease) as (acts, server):
        await acts.write_lease(replace(LEASE, resource_version="17"))

    assert server.calls == [f"PUT {LEASES}/vpa-updater"]
    assert server.asked[0].json["metadata"]["resourceVersion"] == "17"


@pytest.mark.parametrize("version", ["", "17"])
async def test_a_lease_that_another_has_written_is_a_conflict(version: str) -> None:
    async with acting(in_turn(refused(HTTPStatus.CONFLICT))) as (acts, _):
        with pytest.raises(ConflictError):
            await acts.write_lease(replace(LEASE, resource_version=version))


async def test_a_lease_that_does_not_exist_is_none() -> None:
    there = {"metadata": {"namespace": "kube-system", "name": "vpa-updater"}}
    async with acting(in_turn(refused(404), ok(there))) as (acts, server):
        missing = await acts.fetch_lease("kube-system", "vpa-updater")
        found = await acts.fetch_lease("kube-system", "vpa-updater")

    assert missing is None
    assert found == Lease("kube-system", "vpa-updater")
    assert server.calls == [f"GET {LEASES}/vpa-updater"] * 2


async def test_leases_do_not_wait_behind_other_requests() -> None:
    clock = StillClock()
    async with serving(answer_lease) as server, a_client(server.url, clock=clock, rate=1) as client:
        acts = Acts(client, Checkpoints())
        for version in ("", "1", "2", "3"):
            await acts.write_lease(replace(LEASE, resource_version=version))

    assert clock.moment == NOW


SKIPPED = Event(about_pod(POD), "InPlaceResizeSkipped", "It would not fit.", NOW)


async def test_an_event_is_created_in_the_namespace_of_its_object() -> None:
    async with acting(always_ok) as (acts, server):
        await acts.emit(SKIPPED)

    assert server.calls == [f"POST {NAMESPACED}/events"]
    assert server.asked[0].json["involvedObject"]["uid"] == "u-1"


async def test_an_equal_event_is_counted_and_the_count_written_after_a_while() -> None:
    async with acting(always_ok) as (acts, server):
        for minute in (0, 1, 2, 3, 4, 5, 6):
            await acts.emit(replace(SKIPPED, at=NOW + minutes(minute)))

    name = server.asked[0].json["metadata"]["name"]
    assert server.calls == [f"POST {NAMESPACED}/events", f"PATCH {NAMESPACED}/events/{name}"]
    assert server.asked[1].json == {"count": 6, "lastTimestamp": "2026-08-22T12:05:00Z"}
    assert server.asked[1].headers["Content-Type"] == "application/merge-patch+json"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(SKIPPED, reason="EvictedByVPA"), id="another reason"),
        pytest.param(replace(SKIPPED, message="It would fit."), id="another message"),
        pytest.param(
            replace(SKIPPED, about=about_autoscaler(an_autoscaler())), id="another object"
        ),
        pytest.param(
            replace(SKIPPED, about=replace(SKIPPED.about, uid="u-2")), id="a pod of the same name"
        ),
    ],
)
async def test_events_that_differ_are_told_each_by_itself(other: Event) -> None:
    async with acting(always_ok) as (acts, server):
        await acts.emit(SKIPPED)
        await acts.emit(other)

    assert server.calls == [f"POST {NAMESPACED}/events"] * 2


async def test_the_same_pod_in_a_later_version_is_the_same_pod_to_events() -> None:
    later = replace(SKIPPED, about=replace(SKIPPED.about, resource_version="18"))
    async with acting(always_ok) as (acts, server):
        await acts.emit(SKIPPED)
        await acts.emit(later)

    assert len(server.asked) == 1


async def test_an_event_that_the_server_has_forgotten_is_told_anew() -> None:
    async with acting(in_turn(ok(), refused(404), ok())) as (acts, server):
        await acts.emit(SKIPPED)
        await acts.emit(replace(SKIPPED, at=NOW + minutes(90)))

    assert [call.partition(" ")[0] for call in server.calls] == ["POST", "PATCH", "POST"]
    assert acts.lost_events == 0


async def test_an_event_that_cannot_be_written_is_counted_and_tried_again_next_time() -> None:
    async with acting(in_turn(refused(403), ok())) as (acts, server):
        await acts.emit(SKIPPED)
        lost = acts.lost_events
        await acts.emit(SKIPPED)

    assert lost == acts.lost_events == 1
    assert len(server.asked) == 2


async def test_of_endlessly_many_different_events_only_the_latest_are_remembered() -> None:
    async with acting(always_ok) as (acts, server):
        for number in range(4097):
            await acts.emit(replace(SKIPPED, message=str(number)))
        told = len(server.asked)
        await acts.emit(replace(SKIPPED, message="4096"))
        await acts.emit(replace(SKIPPED, message="0"))

    assert told == 4097
    assert len(server.asked) == told + 1
    assert json.loads(server.asked[-1].body)["message"] == "0"


MISSING = 'User "x" cannot create resource "pods/eviction" in API group "" in the namespace "y"'


async def test_f43_a_missing_right_stays_a_problem_until_the_act_succeeds() -> None:
    answers = in_turn(refused(403, message=MISSING), refused(404), ok(), ok())
    async with acting(answers) as (acts, _):
        with pytest.raises(ForbiddenError) as caught:
            await acts.evict(POD)
        with pytest.raises(NotFoundError):
            await acts.evict(POD)
        await acts.patch_pod(POD, ())
        refused_before = acts.problems()
        await acts.evict(POD)

        assert refused_before == {"evict": caught.value}
        assert acts.problems() == {}


async def test_what_no_role_would_allow_is_no_missing_right() -> None:
    async with acting(in_turn(refused(403, message="exceeded quota"))) as (acts, _):
        with pytest.raises(ForbiddenError):
            await acts.write_lease(Lease("kube-system", "vpa-updater"))

        assert acts.problems() == {}


async def test_f43_events_that_may_not_be_written_are_a_problem_too() -> None:
    async with acting(in_turn(refused(403, message=MISSING))) as (acts, _):
        await acts.emit(Event(about_pod(POD), "Some", "Text.", NOW))

        assert acts.problems().keys() == {"emit"}
