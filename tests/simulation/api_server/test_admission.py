from datetime import timedelta

import pytest
from simulation.bare_cluster import a_template, a_workload, a_world, passing, virtually
from support.makers.records import MIB, amounts

from trimtab.cluster.errors import ConflictError, ForbiddenError, InvalidError
from trimtab.core.model.json_patch import Add, Patch
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, ContainerKind, Pod, PodPhase
from trimtab.simulation.api_server.admission import Admitting
from trimtab.simulation.world.facts import Fact, PodCreated, PodRefused
from trimtab.simulation.world.objects import ContainerTemplate, LimitRange, PodTemplate, QuotaObject
from trimtab.simulation.world.virtual_time import START
from trimtab.simulation.world.world import World

SET = a_workload("ReplicaSet", uid="set").reference
CPU = "/spec/containers/0/resources/requests/cpu"
MORE: Patch = (Add(CPU, "250m"),)


def asked(pod: Pod) -> object:
    return pod.containers[0].spec


class Patching:
    """A webhook that always says the same, and remembers what it was asked."""

    def __init__(self, patch: Patch | None) -> None:
        self.patch = patch
        self.seen: list[Pod] = []

    async def __call__(self, pod: Pod) -> Patch | None:
        self.seen.append(pod)
        await passing(seconds=1)
        return self.patch


async def create(
    world: World, template: PodTemplate | None = None, *, webhook: Patching | None = None
) -> Pod:
    admitting = Admitting(world)
    admitting.webhooks = [] if webhook is None else [webhook]
    return await admitting.create_pod("default", "web-1", template or a_template(), SET)


@virtually
async def test_a_pod_is_made_from_its_template_and_waits_for_a_node() -> None:
    world = a_world()
    containers = (
        ContainerTemplate("proxy", kind=ContainerKind.SIDECAR),
        ContainerTemplate("app", Allocation(amounts(100)), restarts_on_resize=True),
        ContainerTemplate("helper"),
    )
    pod = await create(world, a_template(containers=containers, annotations={"note": "1"}))

    assert world.pods.find("default", "web-1") == pod
    assert (pod.phase, pod.node_name, pod.owner) == (PodPhase.PENDING, "", SET)
    assert (pod.labels, pod.annotations) == ({"app": "web"}, {"note": "1"})
    assert [(each.name, each.index, each.kind) for each in pod.containers] == [
        ("app", 0, ContainerKind.REGULAR),
        ("helper", 1, ContainerKind.REGULAR),
        ("proxy", 0, ContainerKind.SIDECAR),
    ]
    assert pod.containers[0].restarts_on_resize
    assert pod.created_at == world.now()


@virtually
async def test_the_webhook_changes_the_pod_before_it_is_stored() -> None:
    world, told = a_world(), list[Fact]()
    world.subscribe(told.append)
    pod = await create(world, webhook=Patching(MORE))

    assert asked(pod) == Allocation(amounts(250, 100 * MIB))
    (fact,) = told
    assert isinstance(fact, PodCreated)
    assert (asked(fact.wanted), fact.pod) == (Allocation(amounts(100, 100 * MIB)), pod)
    assert (fact.patch, fact.webhook_answered) == (MORE, True)


@virtually
async def test_a_webhook_that_does_not_answer_lets_the_pod_in_as_it_is() -> None:
    world, told = a_world(), list[Fact]()
    world.subscribe(told.append)
    pod = await create(world, webhook=Patching(None))

    assert asked(pod) == Allocation(amounts(100, 100 * MIB))
    (fact,) = told
    assert isinstance(fact, PodCreated)
    assert not fact.webhook_answered


@virtually
async def test_a_patch_that_does_not_apply_lets_the_pod_in_as_it_is() -> None:
    patch = (Add(CPU, "250m"), Add("/metadata/nowhere/at/all", "1"))
    pod = await create(a_world(), webhook=Patching(patch))

    assert asked(pod) == Allocation(amounts(100, 100 * MIB))


@virtually
async def test_the_webhook_sees_defaults_but_neither_identity_nor_generated_name() -> None:
    world, webhook = a_world(), Patching(())
    item = LimitRangeItem(LimitRangeType.CONTAINER, default=amounts(300))
    world.limit_ranges.put(LimitRange("default", "bounds", (item,)))
    await create(world, webhook=webhook)
    await _create_in_order(world, webhook)

    generated, ordered = webhook.seen
    assert (generated.name, generated.uid) == ("", "")
    assert (ordered.name, ordered.uid) == ("db-0", "")
    assert asked(generated) == Allocation(amounts(100, 100 * MIB), amounts(300))


async def _create_in_order(world: World, webhook: Patching) -> None:
    admitting = Admitting(world)
    admitting.webhooks = [webhook]
    owner = a_workload("StatefulSet", "db", uid="db").reference
    await admitting.create_pod("default", "db-0", a_template("db"), owner)


@virtually
async def test_what_a_webhook_leaves_open_is_defaulted_once_more() -> None:
    patch = (
        Add("/spec/containers/0/resources/limits", {}),
        Add("/spec/containers/0/resources/limits/cpu", "2"),
    )
    pod = await create(a_world(), a_template(cpu=None), webhook=Patching(patch))

    assert asked(pod) == Allocation(amounts(2000, 100 * MIB), amounts(2000))


@virtually
async def test_another_webhook_may_undo_what_ours_did() -> None:
    world = a_world()
    admitting = Admitting(world)
    admitting.webhooks = [Patching(MORE)]
    admitting.later_webhooks.append(lambda before, _: before)
    pod = await admitting.create_pod("default", "web-1", a_template(), SET)

    assert asked(pod) == Allocation(amounts(100, 100 * MIB))


@virtually
async def test_a_request_above_its_limit_is_invalid() -> None:
    template = a_template(
        containers=(ContainerTemplate("app", Allocation(amounts(200), amounts(100))),)
    )

    with pytest.raises(InvalidError, match="cpu limit"):
        await create(a_world(), template)


@virtually
async def test_what_a_limit_range_does_not_allow_is_forbidden() -> None:
    world = a_world()
    item = LimitRangeItem(LimitRangeType.CONTAINER, min=amounts(150))
    world.limit_ranges.put(LimitRange("default", "bounds", (item,)))

    with pytest.raises(ForbiddenError, match="minimum cpu usage per Container"):
        await create(world)
    assert len(world.pods) == 0


@virtually
async def test_the_quota_counts_what_the_webhook_made_of_the_pod() -> None:
    world = a_world()
    world.quotas.put(QuotaObject("default", "room", amounts(cpu=200)))

    with pytest.raises(ForbiddenError, match="exceeded quota: room"):
        await create(world, webhook=Patching(MORE))
    await create(world)
    assert len(world.pods) == 1


@virtually
async def test_two_pods_cannot_have_the_same_name() -> None:
    world = a_world()
    first = await create(world)

    with pytest.raises(ConflictError):
        await create(world)
    assert world.pods.find("default", "web-1") == first


@virtually
async def test_times_have_whole_seconds_as_on_the_wire() -> None:
    world = a_world()
    await passing(milliseconds=1700)
    pod = await create(world)

    assert pod.created_at == START + timedelta(seconds=1)


@virtually
async def test_of_several_copies_each_answers_in_its_turn() -> None:
    admitting, copies = Admitting(a_world()), [Patching(()), Patching(())]
    admitting.webhooks = [*copies]
    for number in range(4):
        await admitting.create_pod("default", f"web-{number}", a_template(), SET)

    assert [len(copy.seen) for copy in copies] == [2, 2]


@pytest.mark.parametrize(
    ("quota", "own"),
    [
        pytest.param(200, "", id="the patch alone"),
        pytest.param(50, "exceeded", id="the pod itself"),
    ],
)
@virtually
async def test_a_refusal_tells_whether_the_patch_is_to_blame(quota: int, own: str) -> None:
    world = a_world()
    facts: list[Fact] = []
    world.subscribe(facts.append)
    world.quotas.put(QuotaObject("default", "room", amounts(cpu=quota)))

    with pytest.raises(ForbiddenError):
        await create(world, webhook=Patching(MORE))

    (refused,) = facts
    assert isinstance(refused, PodRefused)
    assert "exceeded quota" in refused.flaw
    assert own in refused.own_flaw
    assert bool(refused.own_flaw) is bool(own)
