"""Owners of kinds that have to be asked for: known before their pods come, and never waited for."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from makers import a_pod
from virtual_time import run_virtually

from trimtab.admission.owning import NotYetError, ReadyOwners
from trimtab.cluster.errors import UnreachableError
from trimtab.cluster.owners import WatchedOwners
from trimtab.cluster.scales import Unknown
from trimtab.core.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.selectors import Selector
from trimtab.core.workloads import Workload

V1 = "example.com/v1"
ROLLOUT = WorkloadName("default", "Rollout", "web")
ABOVE = OwnerReference("Rollout", "web", V1, "uid-web")
SETS = {
    "web-1": Workload(WorkloadName("default", "ReplicaSet", "web-1"), ABOVE, uid="uid-1"),
    "web-2": Workload(WorkloadName("default", "ReplicaSet", "web-2"), ABOVE, uid="uid-2"),
}


class ReplicaSets:
    """A store of ReplicaSets."""

    def find(self, namespace: str, name: str) -> Workload | None:
        return SETS.get(name) if namespace == "default" else None


class SlowScales:
    """Scales that take a second to be read, and are believed for a while."""

    def __init__(self) -> None:
        self.answer: Workload | Unknown | None = Workload(
            ROLLOUT, selector=Selector(), uid="uid-web"
        )
        self.is_fresh = False
        self.asked = 0

    async def workload(self, name: WorkloadName, api_version: str) -> Workload | Unknown | None:
        if not self.is_fresh:
            self.asked += 1
            await asyncio.sleep(1)
        return self.answer if (name, api_version) == (ROLLOUT, V1) else None


class Scene:
    """Owners that are ready as far as they were told in time."""

    def __init__(self) -> None:
        self.scales = SlowScales()
        self.owners = ReadyOwners(WatchedOwners({"ReplicaSet": ReplicaSets()}, self.scales))

    def prepare(self, *targets: WorkloadName) -> bool:
        return self.owners.prepare([(target, V1) for target in targets or (ROLLOUT,)])

    async def prepared(self) -> None:
        self.prepare()
        await asyncio.sleep(2)

    def topmost(self, owner: OwnerReference) -> WorkloadName | str | None:
        return tell(lambda: self.owners.topmost(a_pod(owner=owner)))


def tell(question: Callable[[], WorkloadName | None]) -> WorkloadName | str | None:
    try:
        return question()
    except NotYetError:
        return "not yet"


def play(act: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        scene = Scene()
        finding = asyncio.create_task(scene.owners.find_out())
        await act(scene)
        finding.cancel()

    run_virtually(run())


def in_set(name: str) -> OwnerReference:
    return OwnerReference("ReplicaSet", name, "apps/v1", SETS[name].uid)


def test_the_first_pod_of_a_prepared_target_finds_its_workload_and_its_selector() -> None:
    async def act(scene: Scene) -> None:
        await scene.prepared()

        assert scene.topmost(in_set("web-1")) == ROLLOUT
        assert scene.topmost(ABOVE) == ROLLOUT
        assert scene.owners.selector(ROLLOUT, V1) == Selector()

    play(act)


def test_a_new_set_of_a_known_workload_needs_no_question_of_its_own() -> None:
    async def act(scene: Scene) -> None:
        first = scene.topmost(in_set("web-1"))
        await asyncio.sleep(2)

        assert (first, scene.topmost(in_set("web-2"))) == ("not yet", ROLLOUT)

    play(act)


def test_who_has_the_name_of_a_known_workload_and_is_another_has_to_be_asked_for() -> None:
    async def act(scene: Scene) -> None:
        await scene.prepared()

        assert scene.topmost(OwnerReference("Rollout", "web", V1, "uid-other")) == "not yet"

    play(act)


def test_a_kind_that_cannot_be_scaled_ends_the_walk_below_it() -> None:
    async def act(scene: Scene) -> None:
        scene.scales.answer = None
        await scene.prepared()

        assert scene.topmost(in_set("web-1")) == SETS["web-1"].name
        assert scene.topmost(ABOVE) is None

    play(act)


def test_what_was_known_stays_known_while_nobody_can_tell() -> None:
    async def act(scene: Scene) -> None:
        await scene.prepared()
        scene.scales.answer = Unknown(UnreachableError("GET scale", "no route"))
        await scene.prepared()

        assert scene.topmost(in_set("web-1")) == ROLLOUT
        assert scene.owners.selector(ROLLOUT, V1) == Selector()

    play(act)


def test_everything_is_prepared_as_soon_as_each_target_was_found_once() -> None:
    async def act(scene: Scene) -> None:
        seen = [scene.prepare()]
        await asyncio.sleep(2)
        seen.append(scene.prepare())
        scene.scales.answer = None
        await asyncio.sleep(2)
        seen.append(scene.prepare())

        assert seen == [False, True, True]

    play(act)


@pytest.mark.parametrize(
    "targets",
    [
        pytest.param((), id="no target"),
        pytest.param((SETS["web-1"].name,), id="a target of a well-known kind"),
        pytest.param((WorkloadName("default", "ReplicaSet", "gone"),), id="one that is gone"),
    ],
)
def test_where_nothing_has_to_be_asked_for_everything_is_prepared(
    targets: tuple[WorkloadName, ...],
) -> None:
    async def act(scene: Scene) -> None:
        assert scene.owners.prepare([(target, "apps/v1") for target in targets])
        assert scene.scales.asked == 0

    play(act)


def test_a_target_that_does_not_exist_holds_the_others_up_for_some_attempts_only() -> None:
    async def act(scene: Scene) -> None:
        seen = []
        for _ in range(32):
            seen.append(scene.prepare(ROLLOUT, WorkloadName("default", "Rollout", "dream")))
            await asyncio.sleep(10)

        assert seen == [False] * 30 + [True] * 2

    play(act)


def test_an_answer_that_need_not_be_waited_for_is_believed_before_what_is_remembered() -> None:
    async def act(scene: Scene) -> None:
        await scene.prepared()
        scene.scales.answer, scene.scales.is_fresh = None, True

        assert scene.owners.selector(ROLLOUT, V1) is None
        assert scene.owners.topmost(a_pod(owner=ABOVE)) is None

    play(act)


class LostOwners:
    """Owners of whom nobody can be asked."""

    async def topmost(self, owned: Pod | Workload) -> WorkloadName | None:
        await asyncio.sleep(1)
        raise UnreachableError(str(owned), "no route")

    async def workload(self, name: WorkloadName, api_version: str = "") -> Workload | None:
        await asyncio.sleep(1)
        raise UnreachableError(f"{name} {api_version}", "no route")

    def known(self, name: WorkloadName) -> Workload | None:
        del name
        return None


def test_whoever_finds_out_goes_on_after_an_error() -> None:
    async def scene() -> None:
        owners = ReadyOwners(LostOwners())
        finding = asyncio.create_task(owners.find_out())
        for _ in range(3):
            with pytest.raises(NotYetError):
                owners.topmost(a_pod(owner=ABOVE))
            await asyncio.sleep(2)

        assert not finding.done()
        finding.cancel()

    run_virtually(scene())
