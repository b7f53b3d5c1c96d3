from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import a_pod

from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.live.owners import WatchedOwners
from trimtab.cluster.live.scales import CachedScale, Missing, Unknown
from trimtab.cluster.ports import Owners
from trimtab.core.model.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.model.workloads import Workload

UNKNOWN = Unknown(DecodeError("status.selector", "bad"))


def a_workload(kind: str, name: str, owner: OwnerReference | None = None) -> Workload:
    return Workload(WorkloadName("default", kind, name), owner, uid=f"uid-{name}")


def owned_by(kind: str, name: str, uid: str | None = None) -> OwnerReference:
    return OwnerReference(kind, name, "example.com/v1", f"uid-{name}" if uid is None else uid)


class Named:
    """A store, or scales, of what it was given."""

    def __init__(self, found: Mapping[WorkloadName, Workload | Unknown], kind: str = "") -> None:
        self._found = found
        self._kind = kind

    def find(self, namespace: str, name: str) -> Workload | None:
        found = self._found.get(WorkloadName(namespace, self._kind, name))
        assert not isinstance(found, Unknown)
        return found

    def peek(self, name: WorkloadName, api_version: str, uid: str = "") -> CachedScale | None:
        assert api_version in {"example.com/v1", ""}
        del uid
        return CachedScale(self._found.get(name) or Missing.OBJECT, is_fresh=True)

    async def workload(
        self, name: WorkloadName, api_version: str, uid: str = ""
    ) -> Workload | Unknown | None:
        assert api_version in {"example.com/v1", ""}
        del uid
        return self._found.get(name)


def owners_of(*workloads: Workload, unknown: WorkloadName | None = None) -> WatchedOwners:
    found: dict[WorkloadName, Workload | Unknown] = {each.name: each for each in workloads}
    if unknown is not None:
        found[unknown] = UNKNOWN
    kinds = ("Deployment", "ReplicaSet", "Job", "CronJob")
    return WatchedOwners({kind: Named(found, kind) for kind in kinds}, Named(found))


async def ask(owners: Owners, owned: Pod | Workload) -> str | None:
    topmost = await owners.topmost(owned)
    return None if topmost is None else f"{topmost.kind}/{topmost.name}"


WEB = a_workload("Deployment", "web")
SET = a_workload("ReplicaSet", "web-1", owned_by("Deployment", "web"))


def test_only_well_known_kinds_are_told_without_waiting() -> None:
    app = a_workload("App", "shop")
    owners = owners_of(WEB, app)

    assert owners.known(WEB.name) == WEB
    assert owners.known(app.name) is None
    assert owners.known(SET.name) is None


@pytest.mark.parametrize(
    ("workloads", "owner", "topmost"),
    [
        pytest.param([], None, None, id="a pod of nobody"),
        pytest.param(
            [SET, WEB], owned_by("ReplicaSet", "web-1"), "Deployment/web", id="two known levels"
        ),
        pytest.param(
            [a_workload("ReplicaSet", "r")],
            owned_by("ReplicaSet", "r"),
            "ReplicaSet/r",
            id="one known level",
        ),
        pytest.param(
            [a_workload("Rollout", "r")], owned_by("Rollout", "r"), "Rollout/r", id="one scalable"
        ),
        pytest.param(
            [
                a_workload("ReplicaSet", "s", owned_by("Rollout", "r")),
                a_workload("Rollout", "r", owned_by("Fleet", "f")),
                a_workload("Fleet", "f"),
            ],
            owned_by("ReplicaSet", "s"),
            "Fleet/f",
            id="a known level below two scalable ones",
        ),
        pytest.param(
            [a_workload("Deployment", "d", owned_by("Release", "x"))],
            owned_by("Deployment", "d"),
            "Deployment/d",
            id="a level that cannot be scaled ends the walk",
        ),
        pytest.param([], owned_by("Release", "x"), None, id="only a level that cannot be scaled"),
        pytest.param([SET], owned_by("ReplicaSet", "web-1"), None, id="a missing owner above"),
        pytest.param([], owned_by("ReplicaSet", "web-1"), None, id="a missing owner"),
        pytest.param([], owned_by("Node", "n"), None, id="a static pod of a node"),
        pytest.param(
            [a_workload("ReplicaSet", "s", owned_by("Node", "n"))],
            owned_by("ReplicaSet", "s"),
            None,
            id="a node above a known level",
        ),
        pytest.param(
            [
                a_workload("ReplicaSet", "s", owned_by("Deployment", "d")),
                a_workload("Deployment", "d", owned_by("ReplicaSet", "s")),
            ],
            owned_by("ReplicaSet", "s"),
            None,
            id="a cycle",
        ),
        pytest.param(
            [a_workload("Rollout", "r", owned_by("Rollout", "r"))],
            owned_by("Rollout", "r"),
            None,
            id="one that owns itself",
        ),
        pytest.param(
            [WEB],
            owned_by("Deployment", "web", uid="another"),
            None,
            id="another one of the same name",
        ),
        pytest.param(
            [WEB], owned_by("Deployment", "web", uid=""), "Deployment/web", id="without a uid"
        ),
    ],
)
async def test_the_walk_ends_at_the_topmost_workload_or_nowhere(
    workloads: list[Workload], owner: OwnerReference | None, topmost: str | None
) -> None:
    assert await ask(owners_of(*workloads), a_pod(owner=owner)) == topmost


async def test_an_owner_that_cannot_be_asked_for_leaves_the_pod_alone() -> None:
    below = a_workload("ReplicaSet", "s", owned_by("Rollout", "r"))
    owners = owners_of(below, unknown=WorkloadName("default", "Rollout", "r"))

    assert await ask(owners, a_pod(owner=owned_by("ReplicaSet", "s"))) is None


@pytest.mark.parametrize(
    ("workload", "topmost"),
    [
        pytest.param(WEB, "Deployment/web", id="nobody owns it"),
        pytest.param(SET, "Deployment/web", id="somebody owns it"),
        pytest.param(
            a_workload("Job", "j", owned_by("Release", "x")), "Job/j", id="its owner is no workload"
        ),
        pytest.param(
            a_workload("Job", "j", owned_by("CronJob", "c")), None, id="its owner is missing"
        ),
    ],
)
async def test_a_target_is_its_own_topmost_workload_unless_another_owns_it(
    workload: Workload, topmost: str | None
) -> None:
    assert await ask(owners_of(WEB, SET), workload) == topmost


async def test_owners_are_looked_for_in_the_namespace_of_the_pod() -> None:
    pod = a_pod(owner=owned_by("ReplicaSet", "web-1"), namespace="other")

    assert await ask(owners_of(SET, WEB), pod) is None


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param(WEB.name, WEB, id="a known kind"),
        pytest.param(
            WorkloadName("default", "Rollout", "r"), a_workload("Rollout", "r"), id="a scalable one"
        ),
        pytest.param(WorkloadName("default", "Deployment", "x"), None, id="a missing one"),
        pytest.param(WorkloadName("default", "Fleet", "f"), None, id="one that cannot be asked"),
        pytest.param(WorkloadName("default", "Node", "n"), None, id="a node"),
    ],
)
async def test_a_workload_is_found_by_its_kind_and_name(
    name: WorkloadName, found: Workload | None
) -> None:
    owners = owners_of(
        WEB, a_workload("Rollout", "r"), unknown=WorkloadName("default", "Fleet", "f")
    )

    assert await owners.workload(name) == found


NAMES = st.tuples(
    st.sampled_from(["ReplicaSet", "Deployment", "Rollout", "Node"]), st.sampled_from("abc")
)


@given(links=st.dictionaries(NAMES, st.none() | NAMES), start=NAMES)
async def test_no_tangle_of_owners_keeps_the_walk_from_ending(
    links: dict[tuple[str, str], tuple[str, str] | None], start: tuple[str, str]
) -> None:
    workloads = [
        a_workload(*name, OwnerReference(*owner, "example.com/v1") if owner else None)
        for name, owner in links.items()
    ]
    pod = a_pod(owner=OwnerReference(*start, "example.com/v1"))

    topmost = await owners_of(*workloads).topmost(pod)

    assert topmost is None or topmost in {each.name for each in workloads}
