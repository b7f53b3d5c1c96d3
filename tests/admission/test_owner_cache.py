"""Owners of kinds that are read over the network: known before their pods come."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

import pytest
from support.fakes.clocks import LoopClock, run_virtually
from support.fakes.silent_server import SilentServer

from trimtab.admission.owner_cache import NotYetError, ReadyOwners
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ForbiddenError, NotFoundError, UnreachableError
from trimtab.cluster.live.owners import WatchedOwners
from trimtab.cluster.live.scales import Scales
from trimtab.core.model.pods import OwnerReference, PodHead, WorkloadName
from trimtab.core.model.selectors import Selector, equality
from trimtab.core.model.workloads import Workload

V1 = "example.com/v1"
ROLLOUT = WorkloadName("default", "Rollout", "web")
ABOVE = OwnerReference("Rollout", "web", V1, "uid-web")
FLEET = OwnerReference("Fleet", "prod", V1, "uid-prod")
SETS = {
    "web-1": Workload(WorkloadName("default", "ReplicaSet", "web-1"), ABOVE, uid="uid-1"),
    "web-2": Workload(WorkloadName("default", "ReplicaSet", "web-2"), ABOVE, uid="uid-2"),
    "db": Workload(WorkloadName("default", "ReplicaSet", "db"), FLEET, uid="uid-db"),
}
SCALE = "/apis/example.com/v1/namespaces/default/rollouts/web/scale"
BY_APP = Selector((equality("app", "web"),))
FORBIDDEN = ForbiddenError(f"GET {SCALE}", Status(code=403, message="no"))
LOOKUP_SECONDS = 1
MINUTE, HOUR = 60, 3600


class ReplicaSets:
    """A store of ReplicaSets."""

    def __init__(self) -> None:
        self.hidden: set[str] = set()

    def find(self, namespace: str, name: str) -> Workload | None:
        return SETS.get(name) if namespace == "default" and name not in self.hidden else None


def a_scale(uid: str = "uid-web", selector: str = "app=web") -> dict[str, Any]:
    metadata = {"namespace": "default", "name": "web", "uid": uid}
    return {"metadata": metadata, "spec": {"replicas": 3}, "status": {"selector": selector}}


class SlowServer(SilentServer):
    """An API server that takes its time, and can be asked only from within a task."""

    def __init__(self) -> None:
        kinds = [("rollouts", "Rollout"), ("rollouts/scale", "Scale"), ("fleets", "Fleet")]
        resources = [{"name": name, "kind": kind, "namespaced": True} for name, kind in kinds]
        self.shown: dict[str, Any] = {
            "/apis/example.com": {"versions": [{"version": "v1"}]},
            "/apis/example.com/v1": {"resources": resources},
            SCALE: a_scale(),
        }
        self.asked: list[str] = []

    async def fetch(self, path: str, parameters: Mapping[str, str] | None = None) -> bytes:
        assert parameters is None
        self.asked.append(path)
        # As the real client does, which fails outside of a task.
        async with asyncio.timeout(10):
            await asyncio.sleep(LOOKUP_SECONDS)
        found = self.shown.get(path)
        if isinstance(found, Exception):
            raise found
        if found is None:
            raise NotFoundError(f"GET {path}", Status(code=404))
        return json.dumps(found).encode()


class Scene:
    """Owners as an admission controller sees them."""

    def __init__(self) -> None:
        self.server = SlowServer()
        self.sets = ReplicaSets()
        scales = Scales(self.server, clock=LoopClock(), random=Random(1))
        self.owners = ReadyOwners(WatchedOwners({"ReplicaSet": self.sets}, scales))

    def prepare(self, *targets: WorkloadName) -> bool:
        return self.owners.prepare([(target, V1) for target in targets or (ROLLOUT,)])

    async def prepared(self) -> None:
        self.prepare()
        await asyncio.sleep(5 * LOOKUP_SECONDS)

    def topmost(self, owner: OwnerReference, *, may_wait: bool = True) -> object:
        try:
            return self.owners.find(PodHead("default", owner), may_wait=may_wait).topmost
        except NotYetError:
            return "not yet"

    def selector(self) -> Selector | str | None:
        try:
            return self.owners.selector(ROLLOUT, V1, may_wait=True)
        except NotYetError:
            return "not yet"

    def count(self, path: str = SCALE) -> int:
        return self.server.asked.count(path)


def play(act: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        scene = Scene()
        running = asyncio.create_task(scene.owners.run())
        await act(scene)
        assert not running.done()
        running.cancel()

    run_virtually(run())


def in_set(name: str) -> OwnerReference:
    return OwnerReference("ReplicaSet", name, "apps/v1", SETS[name].uid)


def test_the_first_pod_of_a_prepared_target_finds_its_workload_and_its_selector() -> None:
    async def act(scene: Scene) -> None:
        await scene.prepared()

        assert scene.topmost(in_set("web-1")) == ROLLOUT
        assert scene.topmost(ABOVE) == ROLLOUT
        assert scene.selector() == BY_APP

    play(act)


def test_the_first_pod_of_another_target_is_answered_once_it_has_been_looked_up() -> None:
    async def act(scene: Scene) -> None:
        first = scene.topmost(in_set("web-1"))
        at_once = scene.topmost(in_set("web-1"), may_wait=False)
        await asyncio.sleep(5 * LOOKUP_SECONDS)

        assert (first, at_once) == ("not yet", None)
        assert scene.topmost(in_set("web-2")) == ROLLOUT
        assert scene.selector() == BY_APP
        assert scene.count() == 1

    play(act)


def test_an_answer_that_is_too_old_stands_while_it_is_renewed() -> None:
    async def act(scene: Scene) -> None:
        await scene.prepared()
        await asyncio.sleep(HOUR)
        before = [scene.topmost(in_set("web-1")), scene.selector()]
        await asyncio.sleep(5 * LOOKUP_SECONDS)

        assert before == [ROLLOUT, BY_APP]
        assert scene.count() == 2

    play(act)


def test_a_replaced_workload_of_the_same_name_is_looked_up_again() -> None:
    async def act(scene: Scene) -> None:
        await scene.prepared()
        scene.server.shown[SCALE] = a_scale("uid-other")
        another = OwnerReference("Rollout", "web", V1, "uid-other")
        first = scene.topmost(another)
        await asyncio.sleep(5 * LOOKUP_SECONDS)

        assert first == "not yet"
        assert scene.topmost(another) == ROLLOUT

    play(act)


def test_a_target_that_is_created_after_its_autoscaler_is_found_by_its_first_pod() -> None:
    async def act(scene: Scene) -> None:
        created = scene.server.shown.pop(SCALE)
        await scene.prepared()
        scene.server.shown[SCALE] = created
        first = scene.topmost(in_set("web-1"))
        await asyncio.sleep(2 * LOOKUP_SECONDS)

        assert first == "not yet"
        assert scene.topmost(in_set("web-1")) == ROLLOUT
        assert scene.selector() == BY_APP

    play(act)


def test_a_kind_that_is_created_after_its_autoscaler_is_found_too() -> None:
    async def act(scene: Scene) -> None:
        group = scene.server.shown.pop("/apis/example.com")
        await scene.prepared()
        scene.server.shown["/apis/example.com"] = group
        await asyncio.sleep(2)
        first = scene.topmost(in_set("web-1"))
        await asyncio.sleep(5 * LOOKUP_SECONDS)

        assert first == "not yet"
        assert scene.topmost(in_set("web-1")) == ROLLOUT

    play(act)


def test_a_new_object_is_read_again_until_its_controller_has_written_its_selector() -> None:
    async def act(scene: Scene) -> None:
        scene.server.shown[SCALE] = a_scale(selector="")
        await scene.prepared()
        first = scene.selector()
        scene.server.shown[SCALE] = a_scale()
        await asyncio.sleep(5 * LOOKUP_SECONDS)

        assert first == "not yet"
        assert scene.selector() == BY_APP

    play(act)


def test_pods_of_a_kind_that_never_writes_a_selector_wait_for_half_a_minute_only() -> None:
    async def act(scene: Scene) -> None:
        scene.server.shown[SCALE] = a_scale(selector="")
        await scene.prepared()
        await asyncio.sleep(40)
        scene.selector()
        await asyncio.sleep(5 * LOOKUP_SECONDS)

        assert scene.selector() is None

    play(act)


def test_a_kind_that_cannot_be_scaled_ends_the_walk_below_it() -> None:
    async def act(scene: Scene) -> None:
        first = scene.topmost(in_set("db"))
        await asyncio.sleep(5 * LOOKUP_SECONDS)

        assert first == "not yet"
        assert scene.topmost(in_set("db")) == SETS["db"].name
        assert scene.topmost(FLEET) is None
        assert scene.count() == 0

    play(act)


def test_the_owners_of_a_well_known_target_are_looked_up_beforehand() -> None:
    async def act(scene: Scene) -> None:
        seen = [scene.prepare(SETS["db"].name)]
        await asyncio.sleep(5 * LOOKUP_SECONDS)
        seen.append(scene.prepare(SETS["db"].name))

        assert seen == [False, True]
        assert scene.topmost(in_set("db")) == SETS["db"].name

    play(act)


def test_an_owner_that_no_watch_shows_yet_may_be_waited_for() -> None:
    async def act(scene: Scene) -> None:
        await scene.prepared()
        scene.sets.hidden.add("web-1")
        seen = [scene.topmost(in_set("web-1"), may_wait=may_wait) for may_wait in (True, False)]
        scene.sets.hidden.clear()

        assert seen == ["not yet", None]
        assert scene.topmost(in_set("web-1")) == ROLLOUT

    play(act)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(UnreachableError("GET scale", "no route"), id="the server is not there"),
        pytest.param(FORBIDDEN, id="a right was taken away"),
    ],
)
def test_what_was_known_stays_known_while_it_cannot_be_looked_up(error: Exception) -> None:
    async def act(scene: Scene) -> None:
        await scene.prepared()
        scene.server.shown |= {SCALE: error, "/apis/example.com": error}
        for _ in range(10):
            await asyncio.sleep(HOUR / 2)
            await scene.prepared()

        assert scene.topmost(in_set("web-1")) == ROLLOUT
        assert scene.selector() == BY_APP

    play(act)


def test_a_right_that_is_missing_is_asked_for_seldom_and_named() -> None:
    async def act(scene: Scene) -> None:
        scene.server.shown[SCALE] = FORBIDDEN
        await scene.prepared()
        for _ in range(10 * MINUTE):
            found = scene.owners.find(PodHead("default", in_set("web-1")), may_wait=False)
            await asyncio.sleep(1)

        assert found.topmost is None
        assert "Rollout default/web" in found.doubt
        assert "no" in found.doubt
        assert scene.count() <= 21

    play(act)


def test_everything_is_prepared_as_soon_as_each_target_was_looked_up_once() -> None:
    async def act(scene: Scene) -> None:
        seen = [scene.prepare()]
        await asyncio.sleep(5 * LOOKUP_SECONDS)
        seen.append(scene.prepare())
        del scene.server.shown[SCALE]
        await asyncio.sleep(HOUR)
        seen.append(scene.prepare())

        assert seen == [False, True, True]

    play(act)


@pytest.mark.parametrize(
    "targets",
    [
        pytest.param((), id="no target"),
        pytest.param((WorkloadName("default", "ReplicaSet", "gone"),), id="one that is gone"),
    ],
)
def test_where_nothing_has_to_be_looked_up_everything_is_prepared(
    targets: tuple[WorkloadName, ...],
) -> None:
    async def act(scene: Scene) -> None:
        assert scene.owners.prepare([(target, "apps/v1") for target in targets])
        await asyncio.sleep(5 * LOOKUP_SECONDS)
        assert scene.server.asked == []

    play(act)


def test_a_target_that_cannot_be_looked_up_holds_the_others_up_for_some_attempts() -> None:
    async def act(scene: Scene) -> None:
        scene.server.shown[SCALE] = FORBIDDEN
        seen = []
        for _ in range(32):
            seen.append(scene.prepare())
            await asyncio.sleep(10)

        assert seen == [False] * 30 + [True] * 2

    play(act)


def test_a_target_that_does_not_exist_holds_up_no_other() -> None:
    async def act(scene: Scene) -> None:
        dream = WorkloadName("default", "Rollout", "dream")
        seen = [scene.prepare(ROLLOUT, dream)]
        await asyncio.sleep(5 * LOOKUP_SECONDS)
        seen.append(scene.prepare(ROLLOUT, dream))

        assert seen == [False, True]

    play(act)


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(OwnerReference("Rollout", "x" * 254, V1, "u"), id="a long name"),
        pytest.param(OwnerReference("K" * 64, "web", V1, "u"), id="a long kind"),
        pytest.param(OwnerReference("Rollout", "web", "g" * 400, "u"), id="a long group"),
    ],
)
def test_names_that_no_object_can_have_are_not_looked_up_nor_kept(owner: OwnerReference) -> None:
    async def act(scene: Scene) -> None:
        assert scene.topmost(owner) is None
        await asyncio.sleep(5 * LOOKUP_SECONDS)
        assert scene.server.asked == []

    play(act)


def test_no_more_than_a_thousand_lookups_wait() -> None:
    async def act(scene: Scene) -> None:
        for number in range(5000):
            scene.topmost(OwnerReference("Rollout", f"web-{number}", V1, f"u-{number}"))
        await asyncio.sleep(HOUR)

        assert len(scene.server.asked) <= 1024 + 2 * 4

    play(act)
