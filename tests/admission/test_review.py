"""Reviews through everything but the network: pods, autoscalers, and whatever else comes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.damage import VALUES, places, replaced
from support.makers.records import MIB, a_recommendation, amounts
from support.makers.reviews import (
    AUTOSCALERS,
    PODS,
    Json,
    Webhook,
    a_pod_object,
    a_review,
    an_autoscaler_object,
    patch_of,
)

from trimtab.admission.admit import AdmitOutcome
from trimtab.admission.reports import Reviewed, ReviewStatus, ReviewTrouble
from trimtab.admission.server.request_queue import QueueShare
from trimtab.admission.settings import AdmissionSettings
from trimtab.api.http.requests import HttpRequest
from trimtab.core.model.autoscalers import BoostType, CpuBoost, TargetReference
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.json_patch import Add
from trimtab.core.model.selectors import Selector, equality

UP = a_recommendation(target=amounts(500, 500 * MIB))
GOOD_POD = json.dumps(a_review(a_pod_object())).encode()


def in_cluster(scene: Callable[[UpdaterCluster], None]) -> None:
    """Play a scene where the Deployment `web` has an autoscaler."""

    async def play() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        scene(cluster)

    run_virtually(play())


def patiently_in_cluster(scene: Callable[[UpdaterCluster], Awaitable[None]]) -> None:
    """Play a scene as `in_cluster` does, where reviews wait."""

    async def play() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        await scene(cluster)

    run_virtually(play())


async def ask_patiently(webhook: Webhook, review: Json) -> Json:
    """Return the response to a review for which the API server may be asked."""
    asking = asyncio.create_task(webhook.claims.run())
    try:
        return await webhook.ask_patiently(review)
    finally:
        asking.cancel()


def test_a_new_pod_gets_its_size_in_a_patch() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster)
        response = webhook.ask(a_review(a_pod_object()))

        assert response["uid"] == "u-1"
        assert response["allowed"] is True
        assert response["patchType"] == "JSONPatch"
        path = "/spec/containers/0/resources/requests/cpu"
        assert {"op": "add", "path": path, "value": "500m"} in patch_of(response)
        assert webhook.tally.pods == {AdmitOutcome.PATCHED: 1}
        assert [*webhook.tally.latencies] == [(ReviewStatus.APPLIED, Reviewed.POD)]

    in_cluster(scene)


def a_limited_pod(status: object = None) -> Json:
    """A pod with limits, which are changed in proportion; with a status as a copy has it."""
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "200m"}}
    pod = a_pod_object(containers=[{"name": "app", "resources": resources}])
    return pod if status is None else {**pod, "status": status}


def a_copied_status(requests: object, limits: object) -> Json:
    resources = {"requests": requests, "limits": limits}
    running = {"running": {"startedAt": "2026-08-01T00:02:00Z"}}
    return {
        "phase": "Running",
        "startTime": "2026-08-01T00:00:05Z",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-08-01T00:00:09Z"},
            {"type": "PodResizePending", "status": "True", "reason": "Infeasible"},
        ],
        "containerStatuses": [
            {"name": "app", "restartCount": 2, "state": running, "resources": resources}
        ],
    }


AMOUNTS = VALUES | st.dictionaries(
    st.sampled_from(["cpu", "memory"]), st.sampled_from(["1m", "80", "1Mi", "64Gi", "0", "x"])
)


@given(status=VALUES | st.builds(a_copied_status, AMOUNTS, AMOUNTS))
def test_no_status_of_a_new_pod_changes_what_it_gets(status: object) -> None:
    def scene(cluster: UpdaterCluster) -> None:
        alone = Webhook(cluster).ask(a_review(a_limited_pod()))
        # What JSON cannot hold, such as an infinite number, no API server sends.
        sent = json.loads(json.dumps(status), parse_constant=lambda _: None)
        copied = Webhook(cluster).ask(a_review(a_limited_pod(sent)))

        assert copied == alone
        assert copied["patch"]

    in_cluster(scene)


def test_a_copy_of_a_running_pod_gets_the_limit_that_its_spec_calls_for() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        status = a_copied_status({"cpu": "100m"}, {"cpu": "80"})
        patch = patch_of(Webhook(cluster).ask(a_review(a_limited_pod(status))))
        limits = [each["value"] for each in patch if each["path"].endswith("limits/cpu")]

        assert limits == ["1"]

    in_cluster(scene)


def test_of_a_pod_without_an_autoscaler_nothing_but_its_head_is_read() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster)
        stranger = a_pod_object(containers="many")
        stranger["metadata"]["ownerReferences"][0]["controller"] = False
        response = webhook.ask(a_review(stranger))

        assert response == {"uid": "u-1", "allowed": True}
        assert webhook.tally.pods == {AdmitOutcome.UNGOVERNED: 1}

    in_cluster(scene)


def test_a_pod_is_sized_where_it_is_created_not_where_it_says() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        pod = a_pod_object()
        pod["metadata"]["namespace"] = "elsewhere"

        assert patch_of(Webhook(cluster).ask(a_review(pod)))
        assert not patch_of(Webhook(cluster).ask(a_review(pod, namespace="elsewhere")))

    in_cluster(scene)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"operation": "UPDATE"}, id="an update"),
        pytest.param({"operation": "DELETE", "object": None}, id="a deletion"),
        pytest.param({"subResource": "ephemeralcontainers"}, id="a part of a pod"),
    ],
)
def test_only_the_creation_of_a_whole_pod_is_looked_at(change: Json) -> None:
    def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster)

        assert webhook.ask(a_review(a_pod_object(), **change)) == {"uid": "u-1", "allowed": True}
        assert not webhook.tally.pods

    in_cluster(scene)


@pytest.mark.parametrize(
    ("body", "content_type", "trouble", "uid"),
    [
        pytest.param(GOOD_POD, "text/plain", ReviewTrouble.CONTENT_TYPE, "u-1", id="another type"),
        pytest.param(b"", "", ReviewTrouble.CONTENT_TYPE, "", id="nothing at all"),
        pytest.param(
            GOOD_POD[:-9], "application/json", ReviewTrouble.BROKEN, "", id="half a review"
        ),
        pytest.param(b"\xff\xfe", "application/json", ReviewTrouble.BROKEN, "", id="no text"),
        pytest.param(b"[]", "application/json", ReviewTrouble.BROKEN, "", id="a list"),
        pytest.param(b"{}", "application/json", ReviewTrouble.BROKEN, "", id="a review of nothing"),
        pytest.param(
            b"[" * 100_000, "application/json", ReviewTrouble.BROKEN, "", id="endless depth"
        ),
        pytest.param(
            json.dumps(
                {**a_review(a_pod_object()), "apiVersion": "admission.k8s.io/v1beta1"}
            ).encode(),
            "application/json",
            ReviewTrouble.BROKEN,
            "u-1",
            id="a review of another version",
        ),
        pytest.param(
            json.dumps(a_review({}, ("apps", "v1", "deployments"))).encode(),
            "application/json",
            ReviewTrouble.UNKNOWN_RESOURCE,
            "u-1",
            id="an unknown kind",
        ),
        pytest.param(
            json.dumps(a_review({}, ("", "v2", "pods"))).encode(),
            "application/json",
            ReviewTrouble.UNKNOWN_VERSION,
            "u-1",
            id="a pod of another version",
        ),
        pytest.param(
            json.dumps(
                a_review({}, ("autoscaling.k8s.io", "v3", "verticalpodautoscalers"))
            ).encode(),
            "application/json",
            ReviewTrouble.UNKNOWN_VERSION,
            "u-1",
            id="an autoscaler of another version",
        ),
        pytest.param(
            json.dumps(a_review(a_pod_object(containers="many"))).encode(),
            "application/json",
            ReviewTrouble.UNREADABLE_POD,
            "u-1",
            id="a pod that cannot be read",
        ),
        pytest.param(
            json.dumps(a_review({"metadata": {"labels": "many"}})).encode(),
            "application/json",
            ReviewTrouble.UNREADABLE_POD,
            "u-1",
            id="a pod of which not even the owner can be read",
        ),
    ],
)
def test_what_is_not_understood_is_allowed_and_counted(
    body: bytes, content_type: str, trouble: ReviewTrouble, uid: str
) -> None:
    def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster)
        answer = webhook.send(body, content_type)

        assert answer == {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": uid, "allowed": True},
        }
        assert webhook.tally.troubles == {trouble: 1}

    in_cluster(scene)


@pytest.mark.parametrize(
    "content_type",
    [
        pytest.param("application/json", id="as it is"),
        pytest.param("application/json; charset=utf-8", id="with a parameter"),
        pytest.param("Application/JSON", id="in capitals"),
    ],
)
def test_json_is_json_however_it_is_named(content_type: str) -> None:
    def scene(cluster: UpdaterCluster) -> None:
        assert patch_of(Webhook(cluster).send(GOOD_POD, content_type)["response"])

    in_cluster(scene)


@pytest.mark.parametrize(
    "whole",
    [
        pytest.param(a_review(a_pod_object()), id="of a pod"),
        pytest.param(
            a_review(an_autoscaler_object(), AUTOSCALERS, old=an_autoscaler_object()),
            id="of an autoscaler",
        ),
    ],
)
@given(data=st.data())
def test_a_review_with_any_part_damaged_gets_a_valid_answer(
    whole: Json, data: st.DataObject
) -> None:
    damaged = replaced(whole, data.draw(st.sampled_from(places(whole))), data.draw(VALUES))

    def scene(cluster: UpdaterCluster) -> None:
        answer = Webhook(cluster).send(json.dumps(damaged).encode())

        assert answer["kind"] == "AdmissionReview"
        assert isinstance(answer["response"]["allowed"], bool)

    in_cluster(scene)


def test_nothing_that_goes_wrong_with_us_keeps_anybody_from_anything() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster)
        cluster.items = None  # type: ignore[assignment]
        response = webhook.ask(a_review(a_pod_object()))

        assert response == {"uid": "u-1", "allowed": True}
        assert webhook.tally.pods == {AdmitOutcome.FAILED: 1}

        webhook.admission.index.find = None  # type: ignore[method-assign, assignment]
        response = webhook.ask(a_review(an_autoscaler_object(), AUTOSCALERS))

        assert response == {"uid": "u-1", "allowed": True}
        assert webhook.tally.troubles == {ReviewTrouble.FAILED: 1}

    in_cluster(scene)


def test_a_container_that_has_no_room_in_its_pod_is_left_alone_with_a_warning() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster)
        pod = a_pod_object(resources={"requests": {"cpu": "200m"}})
        response = webhook.ask(a_review(pod))

        assert [one["path"] for one in patch_of(response)] == [
            "/metadata/annotations",
            "/metadata/annotations/vpaObservedContainers",
        ]
        assert len(response["warnings"]) == 1
        assert "container app keeps its own resources" in response["warnings"][0]
        assert webhook.tally.warnings == 1

    in_cluster(scene)


@pytest.mark.parametrize(
    ("policy", "count"),
    [
        pytest.param("RestartContainer", 1, id="with a restart"),
        pytest.param("NotRequired", 0, id="without one"),
    ],
)
def test_no_boost_for_a_container_that_its_end_would_restart_is_a_warning(
    policy: str, count: int
) -> None:
    def scene(cluster: UpdaterCluster) -> None:
        cluster.autoscale(UP, boost=CpuBoost(BoostType.FACTOR, factor=2))
        resize = [{"resourceName": "cpu", "restartPolicy": policy}]
        requests = {"cpu": "100m", "memory": "100Mi"}
        container = {"name": "app", "resources": {"requests": requests}, "resizePolicy": resize}
        response = Webhook(cluster).ask(a_review(a_pod_object(containers=[container])))
        warnings = response.get("warnings", [])

        assert len(warnings) == count
        assert all("container app gets no startup boost" in w for w in warnings)

    in_cluster(scene)


@pytest.mark.parametrize(
    ("spec", "most", "cpu"),
    [
        pytest.param({"priority": 0}, 0, "1", id="the usual priority"),
        pytest.param({"priority": 7}, 0, "500m", id="a pod that may preempt others"),
        pytest.param({"priority": 7, "preemptionPolicy": "Never"}, 0, "1", id="it never preempts"),
        pytest.param({"priority": 7}, 7, "1", id="allowed by the operator"),
    ],
)
def test_no_boost_for_a_pod_that_could_preempt_others_is_a_warning(
    spec: dict[str, object], most: int, cpu: str
) -> None:
    def scene(cluster: UpdaterCluster) -> None:
        cluster.autoscale(UP, boost=CpuBoost(BoostType.FACTOR, factor=2))
        webhook = Webhook(cluster, AdmissionSettings(max_boosted_priority=most))
        response = webhook.ask(a_review(a_pod_object(**spec)))
        given = {each["path"]: each["value"] for each in patch_of(response)}
        warnings = response.get("warnings", [])

        assert given["/spec/containers/0/resources/requests/cpu"] == cpu
        assert len(warnings) == (cpu == "500m")
        assert all("--max-boosted-priority" in each for each in warnings)

    in_cluster(scene)


def test_a_test_of_ourselves_gets_the_patch_that_it_is_looking_for() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        patch = (Add("/metadata/annotations/test", "7"),)
        webhook = Webhook(
            cluster, probe=lambda asked: patch if asked.namespace == "tests" else None
        )

        found = patch_of(webhook.ask(a_review(a_pod_object(), namespace="tests")))
        assert found == [{"op": "add", "path": "/metadata/annotations/test", "value": "7"}]
        assert not webhook.tally.pods

    in_cluster(scene)


def test_an_autoscaler_without_an_update_policy_gets_the_default_one() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        response = Webhook(cluster).ask(a_review(an_autoscaler_object(), AUTOSCALERS))

        assert patch_of(response) == [
            {"op": "add", "path": "/spec/updatePolicy", "value": {"updateMode": "Recreate"}}
        ]

    in_cluster(scene)


@pytest.mark.parametrize(
    ("given_object", "field"),
    [
        pytest.param(
            an_autoscaler_object(updatePolicy={"updateMode": "Sometimes"}),
            "spec.updatePolicy.updateMode",
            id="by a rule",
        ),
        pytest.param(
            an_autoscaler_object(updatePolicy={"minReplicas": "two", "updateMode": "Off"}),
            "spec.updatePolicy.minReplicas",
            id="because it cannot be read",
        ),
    ],
)
def test_an_autoscaler_is_refused_with_all_causes(given_object: Json, field: str) -> None:
    def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster)
        response = webhook.ask(a_review(given_object, AUTOSCALERS))

        assert response["allowed"] is False
        assert response["status"]["code"] == 422
        assert response["status"]["reason"] == "Invalid"
        assert [one["field"] for one in response["status"]["details"]["causes"]] == [field]
        assert webhook.tally.refused_autoscalers == 1
        assert [*webhook.tally.latencies] == [(ReviewStatus.SKIPPED, Reviewed.AUTOSCALER)]

    in_cluster(scene)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param(
            {"updatePolicy": {"updateMode": False}},
            'spec.updatePolicy.updateMode: Invalid value: "false": must be of type string; in YAML'
            ' write "Off" in quotes',
            id="an Off that YAML reads as a truth value",
        ),
        pytest.param(
            {"updatePolicy": {"updateMode": "Off", "minReplicas": "two"}},
            'spec.updatePolicy.minReplicas: Invalid value: "two": must be of type integer',
            id="a number as text",
        ),
        pytest.param(
            {"updatePolicy": {"updateMode": "Off", "minReplicas": 2**31}},
            "spec.updatePolicy.minReplicas: Invalid value: must be of type integer <= 2147483647:"
            " 2147483648",
            id="a number that the schema alone lets pass",
        ),
        pytest.param(
            {"resourcePolicy": [], "updatePolicy": []},
            'spec.updatePolicy: Invalid value: "array": must be of type object',
            id="several at once",
        ),
    ],
)
def test_an_autoscaler_of_wrong_types_is_refused_in_words_for_people(
    spec: Json, words: str
) -> None:
    def scene(cluster: UpdaterCluster) -> None:
        response = Webhook(cluster).ask(a_review(an_autoscaler_object(**spec), AUTOSCALERS))

        message = response["status"]["message"]
        assert words in message
        assert "`" not in message

    in_cluster(scene)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"updateMode": "Recreate", "minReplicas": 0}, id="refused by validation"),
        pytest.param({"updateMode": "Recreate", "minReplicas": 2**40}, id="unreadable"),
        pytest.param({}, id="without a mode"),
    ],
)
def test_the_finalizer_of_a_stored_autoscaler_can_be_removed(policy: Json) -> None:
    """It was stored while no webhook ran, and its namespace is being deleted."""

    def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster)
        stored = an_autoscaler_object(updatePolicy=policy)
        final = {**stored, "metadata": {"name": "new", "finalizers": ["shop.example/wait"]}}

        assert webhook.ask(a_review(stored, AUTOSCALERS, old=final))["allowed"]

        other = {**policy, "minReplicas": 2**41}
        changed = an_autoscaler_object(updatePolicy=other)
        assert not webhook.ask(a_review(changed, AUTOSCALERS, old=final))["allowed"]

    in_cluster(scene)


def test_warnings_come_with_an_autoscaler_that_is_allowed() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        given_object = an_autoscaler_object(updatePolicy={"updateMode": "Auto"})
        response = Webhook(cluster).ask(a_review(given_object, AUTOSCALERS))

        assert response["allowed"] is True
        assert "Auto" in response["warnings"][0]

    in_cluster(scene)


def test_a_feature_that_is_off_may_not_be_used_anew_but_stays_where_it_is() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        settings = AdmissionSettings(gates=FeatureGates(in_place=False))
        webhook = Webhook(cluster, settings)
        used = an_autoscaler_object(updatePolicy={"updateMode": "InPlace"})

        assert not webhook.ask(a_review(used, AUTOSCALERS))["allowed"]
        assert webhook.ask(a_review(used, AUTOSCALERS, old=used))["allowed"]

    in_cluster(scene)


def test_a_second_autoscaler_for_a_target_is_refused_unless_their_pods_differ() -> None:
    async def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster)
        second = an_autoscaler_object(target="web")
        response = await ask_patiently(webhook, a_review(second, AUTOSCALERS))

        assert [one["field"] for one in response["status"]["details"]["causes"]] == [
            "spec.selector"
        ]
        assert '"web"' in response["status"]["message"]
        assert webhook.ask(a_review(second, AUTOSCALERS, namespace="elsewhere"))["allowed"]

        cluster.autoscale(UP, selector=Selector((equality("role", "leader"),)))
        follower = an_autoscaler_object(
            target="web", selector={"matchLabels": {"role": "follower"}}
        )
        assert webhook.ask(a_review(follower, AUTOSCALERS))["allowed"]

    patiently_in_cluster(scene)


@pytest.mark.parametrize(("note_bytes", "waits"), [(100, True), (70_000, False)])
def test_a_pod_of_an_unknown_owner_waits_unless_it_is_large(
    note_bytes: int, *, waits: bool
) -> None:
    def scene(cluster: UpdaterCluster) -> None:
        cluster.slow_lookups(1)
        pod = a_pod_object()
        rollout = {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "new", "uid": "u"}
        pod["metadata"]["ownerReferences"][0] |= rollout
        pod["metadata"]["annotations"] = {"note": "x" * note_bytes}
        request = HttpRequest(
            {"content-type": "application/json"}, json.dumps(a_review(pod)).encode()
        )
        found = Webhook(cluster).answering.answer(request, 0.0, may_wait=True)

        assert isinstance(found, QueueShare) is waits
        assert not waits or found == QueueShare("pods", "default")

    in_cluster(scene)


def test_an_autoscaler_that_overlaps_already_can_still_be_edited() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster)
        old = an_autoscaler_object(target="web")
        new = an_autoscaler_object(target="web", updatePolicy={"updateMode": "Off"})

        assert webhook.ask(a_review(new, AUTOSCALERS, old=old))["allowed"]

    in_cluster(scene)


def test_overlapping_autoscalers_are_allowed_with_a_warning_where_that_is_wished() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster, AdmissionSettings(allows_overlapping=True))
        response = webhook.ask(a_review(an_autoscaler_object(target="web"), AUTOSCALERS))

        assert response["allowed"] is True
        assert any("spec.selector" in warning for warning in response["warnings"])

    in_cluster(scene)


def test_two_copies_refuse_an_overlap_as_soon_as_both_see_the_first_autoscaler() -> None:
    async def scene(cluster: UpdaterCluster) -> None:
        one, other = Webhook(cluster), Webhook(cluster)
        first = one.ask(a_review(an_autoscaler_object("first"), AUTOSCALERS))
        at_once = other.ask(a_review(an_autoscaler_object("second"), AUTOSCALERS))
        cluster.autoscale(UP, name="first", target=TargetReference("Deployment", "api"))
        later = [
            (await ask_patiently(copy, a_review(an_autoscaler_object("third"), AUTOSCALERS)))[
                "allowed"
            ]
            for copy in (one, other)
        ]

        assert first["allowed"]
        # Copies do not share what was only allowed.
        assert at_once["allowed"]
        assert later == [False, False]

    patiently_in_cluster(scene)


def test_of_two_that_slipped_past_two_copies_both_copies_obey_the_older_one() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        web, now = TargetReference("Deployment", "web", "apps/v1"), cluster.clock.now()
        cluster.autoscale(UP, name="a-younger", target=web, created_at=now)
        cluster.autoscale(UP, name="older", target=web, created_at=now - timedelta(hours=1))
        cluster.drop_autoscaler("web")
        responses = [Webhook(cluster).ask(a_review(a_pod_object())) for _ in range(2)]
        updates = [
            one["value"]
            for response in responses
            for one in patch_of(response)
            if one["path"].endswith("vpaUpdates")
        ]

        assert len(updates) == 2
        assert all(text.startswith("Pod resources updated by older:") for text in updates)

    in_cluster(scene)


def test_hostile_reviews_leave_nothing_behind_but_counts(caplog: pytest.LogCaptureFixture) -> None:
    def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster)
        for number in range(500):
            webhook.send(b"%d" % number)

        assert webhook.tally.troubles == {ReviewTrouble.BROKEN: 500}
        assert len(caplog.records) == 10

    in_cluster(scene)


def test_pods_of_which_nobody_can_tell_the_owner_come_in_unchanged() -> None:
    def scene(cluster: UpdaterCluster) -> None:
        webhook = Webhook(cluster)
        pod = a_pod_object()
        pod["metadata"]["ownerReferences"][0]["name"] = "unknown"

        assert webhook.ask(a_review(pod, PODS)) == {"uid": "u-1", "allowed": True}
        assert webhook.tally.pods == {AdmitOutcome.OWNER_UNKNOWN: 1}

    in_cluster(scene)
