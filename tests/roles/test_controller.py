"""The role keeper in a small cluster: what it does about leases, and what it leaves alone."""

from dataclasses import replace
from datetime import timedelta

import pytest
from roles.stateful_set import GONE, LEASE, SET, StatefulSetCluster
from support.makers.records import minutes

from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.lists import Unreadable
from trimtab.cluster.errors import ConflictError, ForbiddenError
from trimtab.core.model.pods import WorkloadName
from trimtab.core.roles import Standing
from trimtab.roles.controller import RoleKeeper
from trimtab.roles.reports import (
    Broken,
    Outdated,
    RoleChangeFailed,
    RoleReport,
    RolesPlanned,
    RoleViewNotReady,
)
from trimtab.roles.settings import RolesSettings

SECOND = timedelta(seconds=1)
DB = WorkloadName("default", "StatefulSet", "db")


class Scene:
    """A role keeper, its cluster, and what it told."""

    def __init__(self, **settings: object) -> None:
        self.cluster = StatefulSetCluster()
        self.news: list[RoleReport] = []
        self.may_act = True
        clock = self.cluster.clock
        started = clock.now()
        self.keeper = RoleKeeper(
            self.cluster,
            settings=RolesSettings(**settings),  # type: ignore[arg-type]
            clock=clock,
            elapsed=lambda: clock.now() - started,
            may_act=lambda: self.may_act,
            report=self.news.append,
        )

    async def tick(self, times: int = 1) -> None:
        for _ in range(times):
            await self.keeper.tick()
            await self.cluster.clock.sleep(SECOND)

    def told(self, kind: type[RoleReport]) -> int:
        return sum(isinstance(each, kind) for each in self.news)

    def standings(self) -> list[Standing]:
        return [plan.standing for plan in self.keeper.plans]


async def test_the_role_is_taken_from_the_former_holder_before_another_gets_it() -> None:
    scene = Scene()
    scene.cluster.hold("db-0")
    await scene.tick()
    scene.cluster.hold("db-2")
    await scene.tick()

    assert scene.cluster.patched == [("give", "db-0"), ("take", "db-0"), ("give", "db-2")]


async def test_nothing_is_written_while_nothing_changes() -> None:
    scene = Scene()
    for _ in range(20):
        scene.cluster.hold("db-0")
        await scene.tick()

    assert scene.cluster.patched == [("give", "db-0")]


async def test_a_lease_that_is_not_renewed_leaves_nobody_with_the_role() -> None:
    scene = Scene()
    scene.cluster.hold("db-0")
    await scene.tick(15)
    before = scene.cluster.leaders()
    await scene.tick(2)

    assert before == ["db-0"]
    assert scene.cluster.leaders() == []
    assert scene.standings() == [Standing.EXPIRED]


async def test_a_renewal_that_the_view_has_missed_keeps_the_role_where_it_is() -> None:
    scene = Scene()
    scene.cluster.hold("db-0")
    await scene.tick()
    await scene.cluster.clock.sleep(20 * SECOND)
    scene.cluster.hold("db-0", is_seen=False)
    await scene.tick()

    assert scene.cluster.leaders() == ["db-0"]
    assert scene.told(Outdated) == 1


async def test_a_view_that_shows_an_old_holder_gives_nobody_the_role() -> None:
    scene = Scene()
    scene.cluster.hold("db-0")
    scene.cluster.hold("db-1", is_seen=False)
    await scene.tick()
    stale = scene.cluster.leaders()
    scene.cluster.hold("db-1")
    await scene.tick()

    assert stale == []
    assert scene.cluster.leaders() == ["db-1"]


async def test_who_wears_the_role_unseen_loses_it_before_another_gets_it() -> None:
    scene = Scene()
    scene.cluster.stall("pods")
    scene.cluster.label("db-2")
    scene.cluster.hold("db-0")
    await scene.tick()

    assert scene.cluster.patched == [("take", "db-2"), ("give", "db-0")]


async def test_what_the_view_does_not_show_yet_is_not_done_twice() -> None:
    scene = Scene()
    scene.cluster.hold("db-0")
    scene.cluster.stall("pods")
    await scene.tick(5)
    scene.cluster.truth.leases.put(replace(scene.cluster.lease, holder="db-1"))
    await scene.tick(5)
    scene.cluster.resume()
    await scene.tick()

    assert scene.cluster.patched == [("give", "db-0"), ("take", "db-0"), ("give", "db-1")]


async def test_what_somebody_undoes_is_done_again() -> None:
    scene = Scene()
    scene.cluster.hold("db-0", duration=None)
    await scene.tick()
    (undone,) = (pod for pod in scene.cluster.pods if pod.name == "db-0")
    await scene.cluster.patch_pod(undone, RolesSettings().role.take())
    await scene.tick(12)

    assert scene.cluster.leaders() == ["db-0"]


async def test_under_a_lease_that_flaps_the_role_is_given_ever_more_seldom() -> None:
    scene = Scene()
    gives = []
    for number in range(120):
        scene.cluster.hold(f"db-{number % 2}")
        await scene.tick()
        gives.append(sum(act == "give" for act, _ in scene.cluster.patched))

    assert gives[2] == gives[20] == 3
    assert gives[-1] == 6
    assert scene.standings() == [Standing.FLAPPING]


async def test_after_the_flapping_the_holder_gets_the_role() -> None:
    scene = Scene()
    for number in range(10):
        scene.cluster.hold(f"db-{number % 2}")
        await scene.tick()
    scene.cluster.hold("db-2", duration=None)
    await scene.tick(31)

    assert scene.cluster.leaders() == ["db-2"]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"paused": True}, id="while it is paused"),
        pytest.param({"ignored_namespaces": frozenset({"default"})}, id="where nobody may look"),
    ],
)
async def test_nothing_is_done_where_nothing_may_be_done(settings: dict[str, object]) -> None:
    scene = Scene(**settings)
    scene.cluster.hold("db-0")
    await scene.tick(3)

    assert scene.cluster.patched == []


@pytest.mark.parametrize(
    "age",
    [pytest.param(None, id="never complete"), pytest.param(minutes(6), id="too old")],
)
async def test_who_does_not_see_the_cluster_does_nothing(age: timedelta | None) -> None:
    scene = Scene()
    scene.cluster.view_age = age
    scene.cluster.hold("db-0")
    await scene.tick()

    assert scene.cluster.patched == []
    assert scene.news == [RoleViewNotReady()]


async def test_a_lease_that_nobody_can_read_changes_nothing() -> None:
    scene = Scene()
    scene.cluster.hold("db-0")
    await scene.tick()
    scene.cluster.truth.leases.spoil(Unreadable("default", LEASE, DecodeError("spec", "is odd")))
    await scene.tick(3)

    assert scene.cluster.leaders() == ["db-0"]
    assert scene.keeper.plans == []


async def test_who_is_no_longer_elected_writes_nothing() -> None:
    scene = Scene()
    scene.may_act = False
    scene.cluster.hold("db-0")
    await scene.tick()

    assert scene.cluster.patched == []


async def test_a_label_that_cannot_be_taken_is_given_to_nobody_else() -> None:
    scene = Scene()
    scene.cluster.hold("db-0")
    await scene.tick()
    scene.cluster.hold("db-1")
    scene.cluster.refusals["patch_pod"] = [ForbiddenError("patch", replace(GONE, code=403))]
    await scene.tick()
    refused = scene.cluster.leaders()
    await scene.tick()

    assert refused == ["db-0"]
    assert scene.told(RoleChangeFailed) == 1
    assert scene.cluster.leaders() == ["db-1"]


async def test_a_pod_that_is_another_by_now_is_asked_for_once_more() -> None:
    scene = Scene()
    scene.cluster.hold("db-0")
    await scene.tick()
    scene.cluster.hold("db-1")
    scene.cluster.refusals["patch_pod"] = [ConflictError("patch", GONE)]
    await scene.tick()

    assert scene.cluster.patched[1:] == [("take", "db-0"), ("give", "db-1")]


async def test_a_workload_named_by_an_operator_needs_no_word_of_its_own() -> None:
    scene = Scene(leases={DB: LEASE})
    scene.cluster.put_set(replace(SET, role_lease=""))
    scene.cluster.hold("db-0")
    await scene.tick()

    assert scene.cluster.leaders() == ["db-0"]


async def test_a_tick_that_fails_does_not_end_the_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    scene.cluster.hold("db-0")
    with monkeypatch.context() as patched:
        patched.setattr(scene.cluster, "workloads", None)
        await scene.keeper._guard()
    await scene.keeper._guard()

    assert [type(each) for each in scene.news[:2]] == [Broken, RolesPlanned]
    assert scene.cluster.leaders() == ["db-0"]
