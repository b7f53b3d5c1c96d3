"""What a report sees of a cluster: pods by workload, autoscalers, checkpoints, limits, nodes.

Only reading is needed, and hardly anything is demanded: autoscalers, checkpoints and nodes are left
out where they cannot be seen, and that is said.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

from trimtab.admission.index import target_name
from trimtab.api.decoding import DecodeError
from trimtab.api.horizontal_autoscalers import decode_horizontal
from trimtab.api.lists import decode_list
from trimtab.api.nodes import decode_node
from trimtab.cluster import paths
from trimtab.cluster.adapter import LiveCluster, Scope
from trimtab.cluster.client import Client
from trimtab.cluster.errors import ForbiddenError, NotFoundError
from trimtab.cluster.ports import Owners
from trimtab.core.daemon_sets import list_daemons
from trimtab.core.horizontal import Horizontal, Marking, scaling_among
from trimtab.core.node_room import NodeRooms
from trimtab.core.nodes import Node
from trimtab.core.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.records import dataclass
from trimtab.core.selectors import Selector
from trimtab.core.shadows import Group, Owned, group_pods
from trimtab.core.sizing import Surroundings
from trimtab.recommender.bystander import Sight
from trimtab.updater.owning import OwnerKey, owner_key, resolve_targets

_RecordT = TypeVar("_RecordT")

_ASKED_AT_ONCE: Final = 10
_MOST_LEVELS: Final = 32


@dataclass(frozen=True, slots=True)
class Visible:
    """What of the cluster is shown, and for people what is not."""

    scope: Scope
    nodes: tuple[Node, ...] = ()
    horizontals: tuple[Horizontal, ...] = ()
    notes: tuple[str, ...] = ()


async def find_visible(client: Client, namespace: str) -> Visible:
    """What somebody sees who asks; of a namespace, or of all if it is empty."""
    notes = []
    autoscalers = await _is_shown(client, paths.autoscalers(namespace))
    checkpoints = autoscalers and await _is_shown(client, paths.checkpoints(namespace))
    if not autoscalers:
        notes.append("autoscalers cannot be seen here: as if there were none")
    elif not checkpoints:
        notes.append("checkpoints cannot be seen: what autoscalers have learned is not known")
    nodes = await _list(client, paths.collection("v1", "nodes"), decode_node)
    if not nodes:
        notes.append("nodes cannot be seen: which part of one a pod takes is not known")
    scaled = paths.collection("autoscaling/v2", "horizontalpodautoscalers", namespace)
    horizontals = await _list(client, scaled, decode_horizontal)
    if horizontals is None:
        notes.append("horizontal autoscalers cannot be seen: what is left to them is not known")
    scope = Scope(namespace, autoscalers=autoscalers, checkpoints=checkpoints)
    return Visible(scope, nodes or (), horizontals or (), tuple(notes))


async def look_around(cluster: LiveCluster, visible: Visible, selector: Selector) -> Sight:
    """All pods that the selector matches, by workload and autoscaler."""
    autoscalers = await resolve_targets(
        cluster.owners, cluster.autoscalers, concurrency=_ASKED_AT_ONCE
    )
    chosen = [pod for pod in cluster.pods if selector.matches(pod.labels)]
    groups = group_pods(await _find_owners(cluster.owners, chosen), autoscalers)
    marking = Marking(scaling_among(visible.horizontals, cluster.owners.known).of)
    marked = [replace(group, autoscaler=marking.mark(group.autoscaler)) for group in groups]
    return Sight(marked, cluster.owners, visible.nodes, tuple(cluster.checkpoints))


def surround(
    cluster: LiveCluster, groups: Iterable[Group], nodes: tuple[Node, ...], least_samples: int
) -> Surroundings:
    """What bounds the pods of some groups."""
    namespaces = {group.workload.namespace for group in groups}
    ranges = {name: tuple(cluster.limit_ranges(name)) for name in namespaces}
    by_name = {node.name: node for node in nodes}
    autoscalers = cluster.autoscalers.index(target_name)
    daemons = list_daemons(cluster.daemon_sets, autoscalers.under, cluster.limit_ranges)
    return Surroundings(ranges, by_name, NodeRooms(nodes, daemons), least_samples)


async def _is_shown(client: Client, path: str) -> bool:
    try:
        await client.fetch(path, {"limit": "1"})
    except (NotFoundError, ForbiddenError):
        return False
    return True


async def _list(
    client: Client, path: str, decode: Callable[[bytes], _RecordT]
) -> tuple[_RecordT, ...] | None:
    """All objects under a path; None if they may not be seen."""
    try:
        return decode_list(await client.fetch(path), decode).items
    except (NotFoundError, ForbiddenError, DecodeError):
        return None


async def _find_owners(owners: Owners, pods: Iterable[Pod]) -> list[Owned]:
    """Each pod with its workload, which is asked for once for all pods of an owner."""
    known: dict[OwnerKey, Owned] = {}
    found = []
    for pod in pods:
        key = owner_key(pod)
        if key is None:
            found.append(Owned(pod, None))
            continue
        if key not in known:
            known[key] = await _find_workload(owners, pod)
        found.append(replace(known[key], pod=pod))
    return found


async def _find_workload(owners: Owners, pod: Pod) -> Owned:
    """The topmost workload with its API version, which only who is owned by it tells."""
    topmost = await owners.topmost(pod)
    owner: OwnerReference | None = pod.owner
    for _ in range(_MOST_LEVELS):
        if owner is None or topmost is None:
            break
        name = WorkloadName(pod.namespace, owner.kind, owner.name)
        workload = await owners.workload(name, owner.api_version)
        if name == topmost:
            return Owned(pod, workload, owner.api_version)
        owner = None if workload is None else workload.owner
    return Owned(pod, None)
