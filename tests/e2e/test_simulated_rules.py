"""The rules of the simulated API server against a real one: the same act, the same answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import pytest
from msgspec import structs
from support.fakes.checkpoint_store import Checkpoints
from support.makers.records import MIB, amounts
from support.stages import manifests
from support.stages.administrator import a_client

from rig.controlplane import ControlPlane
from trimtab.api.kinds.leases import Lease
from trimtab.api.kinds.pods import decode_pod
from trimtab.cluster.errors import ApiError
from trimtab.cluster.live.writes import Acts
from trimtab.core.model.json_patch import Add, Operation, Remove
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.quantities import format_amount
from trimtab.core.model.resources import Resources
from trimtab.core.model.selectors import Selector, equality
from trimtab.simulation.api_server.admission import Admitting
from trimtab.simulation.api_server.writes import ResizeRules, Serving
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    DisruptionBudget,
    LimitRange,
    PodTemplate,
    QuotaObject,
)
from trimtab.simulation.world.virtual_time import VirtualClock
from trimtab.simulation.world.world import World

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
RESOURCES = "/spec/containers/0/resources"
CONTAINER = LimitRangeType.CONTAINER
BURSTABLE = Allocation(amounts(100, 100 * MIB), amounts(memory=200 * MIB))
GUARANTEED = Allocation(amounts(100, 100 * MIB), amounts(100, 100 * MIB))
WEB = Selector((equality("app", "web"),))


class Both:
    """One namespace, in both worlds."""

    def __init__(self, plane: ControlPlane, namespace: str, acts: Acts) -> None:
        self.plane, self.namespace, self.acts = plane, namespace, acts
        self.world = World(clock=VirtualClock(), random=Random(1))
        self.serving, self.admitting = Serving(self.world), Admitting(self.world)
        _, version = plane.request("GET", "/version")
        minor = int(json.loads(version)["minor"])
        self.serving.resize_rules = ResizeRules(
            memory_limits_may_shrink=minor >= 34, node_must_be_large_enough=minor >= 36
        )

    def path(self, plural: str, name: str = "", api: str = "api/v1") -> str:
        return f"/{api}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def create_pod(self, name: str, allocation: Allocation) -> Pod:
        """A pod that runs in both worlds alike."""
        self.plane.create(self.path("pods"), a_manifest(name, allocation))
        self.plane.wait_for(self.path("pods", name), _is_well)
        return self.copy(name)

    def copy(self, name: str) -> Pod:
        """Let the pod be in the simulated world as it is in the real one."""
        pod = self.read(name)
        self.world.pods.put(pod)
        return pod

    def read(self, name: str) -> Pod:
        _, body = self.plane.request("GET", self.path("pods", name))
        return decode_pod(body)

    def limit(self, item: LimitRangeItem) -> None:
        self.plane.create(self.path("limitranges"), manifests.limit_range("bounds", item))
        self.world.limit_ranges.put(LimitRange(self.namespace, "bounds", (item,)))

    def restrict(self, requests: Resources) -> None:
        hard = {f"requests.{kind}": text for kind, text in _texts(requests).items()}
        manifest = {"metadata": {"name": "room"}, "spec": {"hard": hard}}
        self.plane.create(self.path("resourcequotas"), manifest)
        found = self.path("resourcequotas", "room")
        self.plane.wait_for(found, lambda quota: quota.get("status", {}).get("used"))
        self.world.quotas.put(QuotaObject(self.namespace, "room", requests))

    def protect(self, name: str, **bounds: int) -> None:
        spec: Json = {_WIRE_NAMES[bound]: count for bound, count in bounds.items()}
        spec |= {"selector": {"matchLabels": {"app": "web"}}}
        api = "apis/policy/v1"
        manifest = {"metadata": {"name": name}, "spec": spec}
        self.plane.create(self.path("poddisruptionbudgets", api=api), manifest)
        found = self.path("poddisruptionbudgets", name, api)
        self.plane.wait_for(found, lambda budget: budget["status"].get("observedGeneration"))
        least, most = bounds.get("min_available"), bounds.get("max_unavailable")
        budget = DisruptionBudget(
            self.namespace, name, WEB, min_available=least, max_unavailable=most
        )
        self.world.budgets.put(budget)


_WIRE_NAMES = {"min_available": "minAvailable", "max_unavailable": "maxUnavailable"}


def a_manifest(name: str, allocation: Allocation) -> Json:
    maps = {"requests": allocation.requests, "limits": allocation.limits}
    resources = {key: _texts(given) for key, given in maps.items() if given is not None}
    container = {"name": "app", "image": "none", "resources": resources}
    metadata = {"name": name, "labels": {"app": "web"}}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def _texts(given: Resources) -> dict[str, str]:
    return {kind: format_amount(kind, amount) for kind, amount in given.items()}


def _is_well(pod: Json) -> bool:
    status = pod.get("status", {})
    ready = [each for each in status.get("conditions", ()) if each["type"] == "Ready"]
    containers = status.get("containerStatuses", ())
    return (
        any(each["status"] == "True" for each in ready)
        and bool(containers)
        and all("resources" in each for each in containers)
    )


async def serve(act: Callable[[], object]) -> None:
    """Let the simulated server do something that takes no time."""
    act()


async def answer(act: Awaitable[object]) -> str:
    """What a world says to an act: that it is done, or the kind of its refusal and the fields."""
    try:
        await act
    except ApiError as error:
        fields = sorted(cause.field or cause.reason for cause in error.causes)
        return " ".join((type(error).__name__, *fields))
    return "done"


@pytest.fixture
async def both(cluster: ControlPlane, namespace: str) -> AsyncIterator[Both]:
    async with a_client(cluster, cluster.port) as client:
        yield Both(cluster, namespace, Acts(client, Checkpoints()))


@dataclass(frozen=True, slots=True)
class Resizing:
    """A resize, and what stands in its way."""

    patch: tuple[Operation, ...]
    allocation: Allocation = BURSTABLE
    item: LimitRangeItem | None = None
    quota: Resources | None = None


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Resizing((Add(f"{RESOURCES}/requests/cpu", "250m"),)), id="more CPU"),
        pytest.param(Resizing((Add(f"{RESOURCES}/requests/cpu", "100m"),)), id="no change"),
        pytest.param(Resizing((Add(f"{RESOURCES}/requests/memory", "50Mi"),)), id="less memory"),
        pytest.param(
            Resizing((Add(f"{RESOURCES}/limits/memory", "150Mi"),)), id="a smaller memory limit"
        ),
        pytest.param(Resizing((Add(f"{RESOURCES}/limits/cpu", "1"),)), id="a new limit"),
        pytest.param(
            Resizing((Remove(f"{RESOURCES}/requests/cpu"),)), id="a request is taken away"
        ),
        pytest.param(
            Resizing((Remove(f"{RESOURCES}/requests/memory"),)),
            id="a request is taken away where a limit stands in for it",
        ),
        pytest.param(Resizing((Remove(f"{RESOURCES}/limits"),)), id="limits are taken away"),
        pytest.param(
            Resizing((Add(f"{RESOURCES}/requests/memory", "300Mi"),)), id="above the limit"
        ),
        pytest.param(
            Resizing((Add(f"{RESOURCES}/requests/cpu", "50m"),), GUARANTEED),
            id="no longer guaranteed",
        ),
        pytest.param(
            Resizing(
                (Add(f"{RESOURCES}/requests/cpu", "50m"), Add(f"{RESOURCES}/limits/cpu", "50m")),
                GUARANTEED,
            ),
            id="still guaranteed",
        ),
        pytest.param(
            Resizing(
                (
                    Add(f"{RESOURCES}/requests/memory", "200Mi"),
                    Add(f"{RESOURCES}/limits/cpu", "100m"),
                )
            ),
            id="guaranteed from now on",
        ),
        pytest.param(
            Resizing((Add(f"{RESOURCES}/requests", {"cpu": "100m"}),), Allocation()),
            id="no longer best effort",
        ),
        pytest.param(
            Resizing((Add("/metadata/labels/role", "leader"),)), id="a label through the side door"
        ),
        pytest.param(Resizing((Remove("/metadata/labels/none"),)), id="a patch in vain"),
        pytest.param(
            Resizing(
                (Add(f"{RESOURCES}/requests/cpu", "40m"),),
                item=LimitRangeItem(CONTAINER, min=amounts(cpu=50)),
            ),
            id="below a limit range",
        ),
        pytest.param(
            Resizing(
                (Add(f"{RESOURCES}/requests/cpu", "400m"),),
                item=LimitRangeItem(CONTAINER, max=amounts(cpu=300)),
            ),
            id="above a limit range whose largest limit is the default",
        ),
        pytest.param(
            Resizing(
                (Add(f"{RESOURCES}/requests/cpu", "200m"),),
                item=LimitRangeItem(CONTAINER, default=amounts(cpu=300)),
            ),
            id="a default that came later",
        ),
        pytest.param(
            Resizing(
                (Add(f"{RESOURCES}/requests/memory", "60Mi"),),
                item=LimitRangeItem(LimitRangeType.POD, max=amounts(memory=150 * MIB)),
            ),
            id="a pod that is above a limit range anyway",
        ),
        pytest.param(
            Resizing((Add(f"{RESOURCES}/requests/cpu", "250m"),), quota=amounts(cpu=200)),
            id="above a quota",
        ),
        pytest.param(
            Resizing((Add(f"{RESOURCES}/requests/cpu", "80m"),), quota=amounts(cpu=50)),
            id="less, where a quota is exceeded already",
        ),
        pytest.param(
            Resizing((Add(f"{RESOURCES}/requests/cpu", "250m"),), quota=amounts(memory=MIB)),
            id="more of one, where the quota of the other is exceeded",
        ),
    ],
)
async def test_a_resize_is_answered_alike_in_both_worlds(both: Both, case: Resizing) -> None:
    both.create_pod("web-0", case.allocation)
    if case.item is not None:
        both.limit(case.item)
    if case.quota is not None:
        both.restrict(case.quota)
    pod = both.copy("web-0")
    seen = both.world.pods.find(both.namespace, "web-0")
    assert seen is not None
    real = await answer(both.acts.resize(pod, case.patch))
    simulated = await answer(serve(partial(both.serving.resize, "updater", seen, case.patch)))

    assert simulated == real
    after = both.world.pods.find(both.namespace, "web-0")
    assert after is not None
    assert asked(after) == asked(both.read("web-0"))
    assert after.labels == both.read("web-0").labels


def asked(pod: Pod) -> list[Allocation]:
    return [container.spec for container in pod.containers]


@pytest.mark.parametrize(
    ("allocation", "item", "quota"),
    [
        pytest.param(Allocation(), None, None, id="nothing"),
        pytest.param(Allocation(limits=amounts(200, 50 * MIB)), None, None, id="limits alone"),
        pytest.param(Allocation(amounts(200), amounts(100)), None, None, id="above the limit"),
        pytest.param(
            Allocation(), LimitRangeItem(CONTAINER, default=amounts(300)), None, id="a default"
        ),
        pytest.param(
            Allocation(amounts(100)),
            LimitRangeItem(CONTAINER, min=amounts(20), max=amounts(300)),
            None,
            id="a largest limit",
        ),
        pytest.param(
            Allocation(), LimitRangeItem(CONTAINER, min=amounts(20)), None, id="a least request"
        ),
        pytest.param(
            Allocation(amounts(400)),
            LimitRangeItem(CONTAINER, default=amounts(300)),
            None,
            id="more than the default limit",
        ),
        pytest.param(
            Allocation(amounts(10), amounts(20)),
            LimitRangeItem(CONTAINER, min=amounts(30)),
            None,
            id="too little",
        ),
        pytest.param(
            Allocation(amounts(100)),
            LimitRangeItem(LimitRangeType.POD, max=amounts(300)),
            None,
            id="no limit where whole pods must have one",
        ),
        pytest.param(Allocation(amounts(100)), None, amounts(cpu=100), id="all of a quota"),
        pytest.param(Allocation(amounts(101)), None, amounts(cpu=100), id="more than a quota"),
        pytest.param(
            Allocation(amounts(100)), None, amounts(memory=MIB), id="silent under a quota"
        ),
    ],
)
async def test_a_pod_comes_in_alike_in_both_worlds(
    both: Both, allocation: Allocation, item: LimitRangeItem | None, quota: Resources | None
) -> None:
    if item is not None:
        both.limit(item)
    if quota is not None:
        both.restrict(quota)
    body = json.dumps(a_manifest("web-0", allocation)).encode()
    status, _ = await asyncio.to_thread(both.plane.request, "POST", both.path("pods"), body)
    template = PodTemplate({"app": "web"}, (ContainerTemplate("app", allocation),))
    creating = both.admitting.create_pod(both.namespace, "web-0", template, None)
    simulated = await answer(creating)

    expected = {201: "done", 403: "ForbiddenError", 422: "InvalidError"}[status]
    assert simulated.split(" ")[0] == expected
    if status == 201:
        made = both.world.pods.find(both.namespace, "web-0")
        assert made is not None
        assert asked(made) == asked(both.read("web-0"))


@pytest.mark.parametrize(
    ("pods", "budgets"),
    [
        pytest.param(2, [], id="no budget"),
        pytest.param(2, [{"min_available": 1}], id="a budget for one"),
        pytest.param(2, [{"min_available": 2}], id="a budget for none"),
        pytest.param(2, [{"max_unavailable": 1}], id="a budget of pods that nobody owns"),
        pytest.param(2, [{"min_available": 0}, {"min_available": 1}], id="two budgets"),
    ],
)
async def test_evictions_are_answered_alike_in_both_worlds(
    both: Both, pods: int, budgets: list[dict[str, int]]
) -> None:
    for number, bounds in enumerate(budgets):
        both.protect(f"budget-{number}", **bounds)
    names = [f"web-{number}" for number in range(pods)]
    for name in names:
        both.create_pod(name, BURSTABLE)
    if budgets:
        _settle(both, pods)
    seen = [both.copy(name) for name in names]
    for pod in seen:
        stored = both.world.pods.find(pod.namespace, pod.name)
        assert stored is not None
        real = await answer(both.acts.evict(pod))
        act = partial(both.serving.evict, "updater", stored)

        assert await answer(serve(act)) == real


def _settle(both: Both, pods: int) -> None:
    """Wait until the budget has counted its pods, if there is one."""
    path = both.path("poddisruptionbudgets", api="apis/policy/v1")

    def is_counted(budget: Json) -> bool:
        conditions = budget["status"].get("conditions", ())
        reasons = {condition["reason"] for condition in conditions}
        return "SyncFailed" in reasons or budget["status"]["currentHealthy"] == pods

    # Of several budgets of one pod the controller looks after one.
    both.plane.wait_for(path, lambda found: any(map(is_counted, found["items"])))


async def test_an_eviction_in_vain_costs_the_budget_in_both_worlds(both: Both) -> None:
    both.protect("budget", min_available=1)
    for name in ("web-0", "web-1"):
        both.create_pod(name, BURSTABLE)
    _settle(both, 2)
    stale = structs.replace(both.copy("web-0"), resource_version="1")
    other = both.copy("web-1")
    stored = both.world.pods.find(other.namespace, other.name)
    assert stored is not None
    real = [await answer(both.acts.evict(pod)) for pod in (stale, other)]
    simulated = [
        await answer(serve(partial(both.serving.evict, "updater", pod))) for pod in (stale, stored)
    ]

    assert simulated == real


async def test_a_deleted_lease_comes_back_in_both_worlds(both: Both) -> None:
    lease = Lease(both.namespace, "lock", holder="a")
    created = await both.acts.write_lease(lease)
    path = both.path("leases", "lock", "apis/coordination.k8s.io/v1")
    both.plane.request("DELETE", path)
    real = await answer(both.acts.write_lease(created))
    made = both.serving.write_lease("updater", lease)
    both.world.leases.delete(both.namespace, "lock")
    simulated = await answer(serve(partial(both.serving.write_lease, "updater", made)))

    assert simulated == real
