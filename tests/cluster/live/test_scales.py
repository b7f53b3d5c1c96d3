import json
from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from support.fakes.clocks import StillClock
from support.fakes.silent_server import SilentServer
from support.makers.records import minutes

from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ClusterError, ForbiddenError, NotFoundError, UnreachableError
from trimtab.cluster.live.scales import Scales, Unknown
from trimtab.core.model.pods import OwnerReference, WorkloadName
from trimtab.core.model.workloads import Workload

ROLLOUT = WorkloadName("default", "Rollout", "web")
SCALE = "/apis/example.com/v1/namespaces/default/rollouts/web/scale"
UNREACHABLE = UnreachableError("GET", "no route")


def resources(*names: str) -> dict[str, Any]:
    kinds = {"rollouts": "Rollout", "rollouts/scale": "Scale", "oldrollouts": "Rollout"}
    return {
        "resources": [
            {"name": name, "kind": kinds.get(name, "Scale"), "namespaced": True} for name in names
        ]
    }


def a_scale(selector: str = "app=web") -> dict[str, Any]:
    owner = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "uid": "u-f"}
    metadata = {
        "namespace": "default",
        "name": "web",
        "uid": "u-web",
        "ownerReferences": [{**owner, "controller": True}],
    }
    return {"metadata": metadata, "status": {"selector": selector}}


class Server(SilentServer):
    """Paths and what they show; all others are not found."""

    def __init__(self, **changes: Any) -> None:
        self.shown: dict[str, Any] = {
            "/apis/example.com": {
                "versions": [{"version": "v1"}, {"version": "v1beta1"}],
                "preferredVersion": {"version": "v1"},
            },
            "/apis/example.com/v1": resources("rollouts", "rollouts/scale"),
            "/apis/example.com/v1beta1": resources("rollouts", "rollouts/scale"),
            SCALE: a_scale(),
        }
        self.shown.update(changes)
        self.asked: list[str] = []

    async def fetch(self, path: str, parameters: Mapping[str, str] | None = None) -> bytes:
        assert parameters is None
        self.asked.append(path)
        answer = self.shown.get(path)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            raise NotFoundError(f"GET {path}", Status(code=404))
        return json.dumps(answer).encode()


def scales_of(server: Server) -> tuple[Scales, StillClock]:
    clock = StillClock()
    return Scales(server, clock=clock, random=Random(1)), clock


async def test_a_kind_is_discovered_and_read_through_its_scale() -> None:
    server = Server()
    scales, _ = scales_of(server)

    workload = await scales.workload(ROLLOUT, "example.com/v1")

    assert isinstance(workload, Workload)
    assert (workload.name, workload.uid) == (ROLLOUT, "u-web")
    assert workload.owner == OwnerReference("Fleet", "f", "example.com/v1", "u-f")
    assert workload.selector is not None
    assert workload.selector.matches({"app": "web"})
    assert server.asked == ["/apis/example.com", "/apis/example.com/v1", SCALE]


async def test_only_the_group_of_a_reference_counts_not_its_version() -> None:
    scales, _ = scales_of(Server())

    assert await scales.workload(ROLLOUT, "example.com/v0alpha1") is not None


async def test_another_version_is_tried_where_the_preferred_one_has_none() -> None:
    older = SCALE.replace("/v1/", "/v1beta1/")
    server = Server(**{SCALE: None, older: a_scale()})
    scales, _ = scales_of(server)

    assert isinstance(await scales.workload(ROLLOUT, "example.com/v1"), Workload)
    assert server.asked[-1] == older


async def test_kinds_of_the_core_group_are_found_without_asking_for_versions() -> None:
    name = WorkloadName("default", "Rollout", "web")
    server = Server(**{"/api/v1": resources("rollouts", "rollouts/scale")})
    server.shown["/api/v1/namespaces/default/rollouts/web/scale"] = a_scale()
    scales, _ = scales_of(server)

    assert isinstance(await scales.workload(name, "v1"), Workload)
    assert server.asked[0] == "/api/v1"


@pytest.mark.parametrize(
    ("changes", "api_version"),
    [
        pytest.param({SCALE: None}, "example.com/v1", id="no such object"),
        pytest.param({"/apis/example.com": None}, "example.com/v1", id="no such group"),
        pytest.param(
            {
                "/apis/example.com/v1": resources("rollouts"),
                "/apis/example.com/v1beta1": resources("oldrollouts"),
            },
            "example.com/v1",
            id="a kind without a scale",
        ),
        pytest.param({"/api/v1": resources()}, "", id="a reference without a version"),
        pytest.param({}, "a/b/c", id="a reference that nobody can follow"),
    ],
)
async def test_what_cannot_be_scaled_is_no_workload(
    changes: dict[str, Any], api_version: str
) -> None:
    scales, _ = scales_of(Server(**changes))

    assert await scales.workload(ROLLOUT, api_version) is None


async def test_an_answer_is_kept_and_asked_for_anew_after_its_time() -> None:
    server = Server()
    scales, clock = scales_of(server)
    await scales.workload(ROLLOUT, "example.com/v1")
    server.shown[SCALE] = a_scale("app=other")

    clock.moment += minutes(9.9)
    kept = await scales.workload(ROLLOUT, "example.com/v1")
    clock.moment += minutes(10.2)
    fresh = await scales.workload(ROLLOUT, "example.com/v1")

    assert isinstance(kept, Workload)
    assert isinstance(fresh, Workload)
    assert kept.selector != fresh.selector
    assert server.asked.count(SCALE) == 2


async def test_that_there_is_none_is_kept_too() -> None:
    server = Server(**{SCALE: None})
    scales, _ = scales_of(server)
    await scales.workload(ROLLOUT, "example.com/v1")
    asked = len(server.asked)

    assert await scales.workload(ROLLOUT, "example.com/v1") is None
    assert len(server.asked) == asked


async def test_a_kind_that_cannot_be_scaled_is_looked_at_again_after_five_minutes() -> None:
    unscalable = {"/apis/example.com/v1": resources("rollouts")}
    server = Server(**unscalable, **{"/apis/example.com": {"versions": [{"version": "v1"}]}})
    scales, clock = scales_of(server)
    assert await scales.workload(ROLLOUT, "example.com/v1") is None
    server.shown["/apis/example.com/v1"] = resources("rollouts", "rollouts/scale")

    clock.moment += minutes(4.9)
    assert await scales.workload(ROLLOUT, "example.com/v1") is None
    clock.moment += minutes(0.2)

    assert isinstance(await scales.workload(ROLLOUT, "example.com/v1"), Workload)


@pytest.mark.parametrize(
    ("path", "before"),
    [
        pytest.param("/apis/example.com", None, id="a group"),
        pytest.param("/apis/example.com/v1", resources("fleets"), id="a kind"),
        pytest.param(SCALE, None, id="an object"),
        pytest.param(SCALE, a_scale(""), id="a selector"),
    ],
)
async def test_what_is_not_there_yet_is_found_soon_after_it_was_created(
    path: str, before: dict[str, Any] | None
) -> None:
    server = Server(**{"/apis/example.com": {"versions": [{"version": "v1"}]}, path: before})
    scales, clock = scales_of(server)
    found = await scales.workload(ROLLOUT, "example.com/v1")
    assert not isinstance(found, Workload) or found.selector is None
    server.shown[path] = Server().shown[path]
    clock.moment += timedelta(seconds=16)
    found = await scales.workload(ROLLOUT, "example.com/v1")

    assert isinstance(found, Workload)
    assert found.selector is not None


async def test_an_answer_that_contradicts_an_owner_reference_is_asked_for_again() -> None:
    server = Server()
    scales, _ = scales_of(server)
    await scales.workload(ROLLOUT, "example.com/v1")
    server.shown[SCALE] = a_scale() | {"metadata": {"name": "web", "uid": "u-new"}}
    before = await scales.workload(ROLLOUT, "example.com/v1", "u-web")
    after = await scales.workload(ROLLOUT, "example.com/v1", "u-new")

    assert isinstance(before, Workload)
    assert isinstance(after, Workload)
    assert (before.uid, after.uid) == ("u-web", "u-new")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, None, id="no object"),
        pytest.param(a_scale(), a_scale(), id="another object"),
        pytest.param(a_scale(), UNREACHABLE, id="nobody can tell"),
    ],
)
async def test_an_owner_that_the_server_does_not_have_is_asked_for_seldom(
    before: dict[str, Any] | None, after: dict[str, Any] | ClusterError | None
) -> None:
    server = Server(**{SCALE: before, "/apis/example.com": {"versions": [{"version": "v1"}]}})
    scales, clock = scales_of(server)
    await scales.workload(ROLLOUT, "example.com/v1")
    server.shown[SCALE] = after
    for _ in range(600):
        await scales.workload(ROLLOUT, "example.com/v1", "u-gone")
        clock.moment += timedelta(milliseconds=100)

    assert server.asked.count(SCALE) <= 6


async def test_peeking_asks_nobody_and_shows_answers_however_old() -> None:
    server = Server()
    scales, clock = scales_of(server)
    before = scales.peek(ROLLOUT, "example.com/v1")
    await scales.workload(ROLLOUT, "example.com/v1")
    asked = len(server.asked)
    fresh = scales.peek(ROLLOUT, "example.com/v1")
    clock.moment += minutes(45)
    old = scales.peek(ROLLOUT, "example.com/v1")

    assert before is None
    assert fresh is not None
    assert old is not None
    assert (fresh.is_fresh, old.is_fresh) == (True, False)
    assert old.answer == fresh.answer
    assert len(server.asked) == asked


async def test_a_scale_with_an_endless_selector_is_not_kept() -> None:
    server = Server(**{SCALE: a_scale("app in (" + "x" * 10_000 + ")")})
    scales, _ = scales_of(server)
    found = await scales.workload(ROLLOUT, "example.com/v1")

    assert isinstance(found, Unknown)
    assert "at most 8192" in str(found.problem)


async def test_of_many_workloads_the_least_used_are_forgotten() -> None:
    server = Server()
    scales, _ = scales_of(server)
    for number in range(20_000):
        await scales.workload(WorkloadName("default", "Rollout", f"web-{number}"), "example.com/v1")
        scales.peek(WorkloadName("default", "Rollout", "web-0"), "example.com/v1")

    assert len(scales._workloads._kept) == 16_384
    assert scales.peek(WorkloadName("default", "Rollout", "web-0"), "example.com/v1") is not None
    assert scales.peek(WorkloadName("default", "Rollout", "web-1"), "example.com/v1") is None


@pytest.mark.parametrize(
    "failing",
    ["/apis/example.com", "/apis/example.com/v1", SCALE],
)
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(UNREACHABLE, id="unreachable"),
        pytest.param(ForbiddenError("GET", Status(code=403)), id="f43 forbidden"),
        pytest.param({"status": {"selector": "app in"}, "resources": 7, "versions": 7}, id="odd"),
    ],
)
async def test_a_question_that_fails_leaves_the_answer_unknown_for_a_short_while(
    failing: str, answer: ClusterError | dict[str, Any]
) -> None:
    server = Server(**{failing: answer})
    scales, clock = scales_of(server)

    found = await scales.workload(ROLLOUT, "example.com/v1")
    asked = len(server.asked)
    again = await scales.workload(ROLLOUT, "example.com/v1")
    assert isinstance(found, Unknown)
    assert again is found
    assert len(server.asked) == asked

    server.shown |= {key: value for key, value in Server().shown.items() if key == failing}
    clock.moment += timedelta(seconds=31)
    assert isinstance(await scales.workload(ROLLOUT, "example.com/v1"), Workload)


async def test_what_was_known_stays_known_while_the_server_cannot_be_asked() -> None:
    server = Server()
    scales, clock = scales_of(server)
    known = await scales.workload(ROLLOUT, "example.com/v1")
    server.shown[SCALE] = UNREACHABLE
    clock.moment += minutes(21)

    assert await scales.workload(ROLLOUT, "example.com/v1") is known


async def test_answers_that_nobody_asks_for_are_forgotten() -> None:
    server = Server()
    scales, clock = scales_of(server)
    await scales.workload(ROLLOUT, "example.com/v1")
    await scales.workload(WorkloadName("default", "Rollout", "gone"), "example.com/v1")
    for _ in range(8):
        clock.moment += minutes(30)
        await scales.workload(ROLLOUT, "example.com/v1")

    assert [key.name for key in scales._workloads._kept] == [ROLLOUT]


async def test_f43_the_right_to_read_a_scale_is_named_for_as_long_as_it_is_missing() -> None:
    message = (
        'rollouts.example.com "web" is forbidden: User "x" cannot get resource "rollouts/scale"'
        ' in API group "example.com" in the namespace "default"'
    )
    refusal = ForbiddenError(f"GET {SCALE}", Status(code=403, message=message))
    server = Server(**{SCALE: refusal})
    scales, clock = scales_of(server)
    await scales.workload(ROLLOUT, "example.com/v1")
    told = [str(each.right) for each in scales.refusals().values()]
    server.shown[SCALE] = a_scale()
    clock.moment += minutes(1)
    await scales.workload(ROLLOUT, "example.com/v1")

    assert told == ["get rollouts/scale.example.com in default"]
    assert scales.refusals() == {}
