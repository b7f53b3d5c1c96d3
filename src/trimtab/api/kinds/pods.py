"""Pods: the few fields that decisions read, decoded directly from the API server's bytes."""

from collections.abc import Mapping
from sys import intern
from typing import Final

import msgspec

from trimtab.api.kinds.pod_parts import conditions, containers, init_containers
from trimtab.api.kinds.pod_parts.wire import (
    ContainerWire,
    NewPodSpec,
    PodSpecWire,
    PodStatusWire,
    PodTemplateWire,
    PodWire,
    ResourcesWire,
)
from trimtab.api.kinds.pod_placement import convert_placement, depends_on_pods
from trimtab.api.wire import codec, metadata, quantities, times
from trimtab.api.wire.metadata import NO_METADATA, Metadata
from trimtab.core.model.pods import (
    LIMITS_PREFIX,
    Allocation,
    Container,
    Envelope,
    Pod,
    PodHead,
    PodPhase,
)
from trimtab.core.sizing import limit_ratios

_DECODER: Final = msgspec.json.Decoder(PodWire)
_PHASES: Final = {phase.value: phase for phase in PodPhase}
_NEVER: Final = "Never"
"""Preemption policy of a pod that preempts no other pod."""
_WINDOWS: Final = "windows"
_OS_LABEL: Final = "kubernetes.io/os"
_FREE_VOLUMES: Final = frozenset(
    {"name", "configMap", "downwardAPI", "emptyDir", "image", "nfs", "projected", "secret"}
)
"""Keys of volumes that any node can mount; other kinds may be bound to some nodes."""
_KNOWN_RESOURCES: Final = frozenset({"cpu", "memory"})
_ZEROS: Final = (b'"0"', b"0", b"null")
_NO_SPEC: Final = PodSpecWire()
_NO_STATUS: Final = PodStatusWire()


def decode_pod(data: bytes) -> Pod:
    """Return the pod in the JSON of one Pod; without a name yet, it is named `<generateName>%`."""
    source = codec.decode(_DECODER, data)
    meta = source.metadata or NO_METADATA
    return _convert_pod(meta, source.spec or _NO_SPEC, source.status or _NO_STATUS)


def convert_new_pod(
    head: PodHead,
    labels: Mapping[str, str],
    annotations: Mapping[str, str | None] | None,
    spec: NewPodSpec,
) -> Pod:
    """Return a pod that is being created, with the fields that affect its size.

    It has neither a node nor a status. A copy of a running pod (`kubectl get -o yaml | kubectl
    create -f -`) comes with the status of its original. The API server drops that status, but
    only after calling the webhooks.
    """
    init = init_containers.summarize(spec.init_containers)
    return Pod(
        namespace=head.namespace,
        name="",
        labels=labels,
        annotations={key: value or "" for key, value in (annotations or {}).items()},
        has_empty_annotations=annotations == {},
        owner=head.owner,
        containers=containers.list_containers(spec, _NO_STATUS),
        envelope=_convert_envelope(spec.resources, init.peak),
        placement=convert_placement(spec.node_selector, spec.affinity, spec.tolerations),
        priority_class=spec.priority_class_name or "",
        preemption_priority=_preemption_priority(spec),
        has_deadline=spec.active_deadline_seconds is not None,
        init_peak=init.peak,
        init_steps=init.steps,
        init_stated=init.stated,
        init_requests=init.requests,
        overhead=quantities.decode_amounts(spec.overhead, "spec.overhead"),
        is_windows=_is_windows(spec),
    )


def _convert_pod(meta: Metadata, spec: PodSpecWire, status: PodStatusWire) -> Pod:
    reported = status.conditions or ()
    init = init_containers.summarize(spec.init_containers)
    return Pod(
        # Interned: a store holds the same few namespaces, nodes and classes for every pod.
        namespace=intern(meta.namespace or ""),
        name=meta.name or f"{meta.generate_name or ''}%",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        generation=meta.generation or 0,
        labels=metadata.text_map(meta.labels),
        annotations=metadata.text_map(meta.annotations),
        has_empty_annotations=meta.annotations == {},
        owner=metadata.controlling_owner(meta),
        # An unknown phase is neither running nor over, so nothing is done to the pod.
        phase=_PHASES.get(status.phase or "", PodPhase.UNKNOWN),
        containers=_with_proportions(containers.list_containers(spec, status), meta.annotations),
        created_at=times.decode_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        started_at=times.decode_time(status.start_time, "status.startTime"),
        ready_since=conditions.ready_since(reported),
        resize=conditions.resize_state(reported),
        resize_message=conditions.resize_message(reported),
        is_deleting=meta.deletion_timestamp is not None,
        node_name=intern(spec.node_name or ""),
        unschedulable_since=None if spec.node_name else conditions.unschedulable_since(reported),
        envelope=_convert_envelope(spec.resources, init.peak),
        placement=convert_placement(spec.node_selector, spec.affinity, spec.tolerations),
        priority_class=intern(spec.priority_class_name or ""),
        preemption_priority=_preemption_priority(spec),
        has_deadline=spec.active_deadline_seconds is not None,
        init_peak=init.peak,
        init_steps=init.steps,
        init_stated=init.stated,
        init_requests=init.requests,
        overhead=quantities.decode_amounts(spec.overhead, "spec.overhead"),
        # Matters only for pods with a node: only those can move to another.
        has_unseen_demands=bool(spec.node_name) and _has_unseen_demands(spec),
        is_windows=_is_windows(spec),
    )


def _preemption_priority(spec: NewPodSpec) -> int:
    # The API server has resolved both from the priority class before calling webhooks.
    return 0 if spec.preemption_policy == _NEVER else spec.priority or 0


def _has_unseen_demands(spec: PodSpecWire) -> bool:
    """Return True if the pod needs more of a node than room and matching labels."""
    return (
        depends_on_pods(spec.affinity, spec.topology_spread_constraints)
        or any(not _FREE_VOLUMES.issuperset(each) for each in spec.volumes or ())
        or any(map(_needs_more, spec.containers or ()))
        or any(map(_needs_more, spec.init_containers or ()))
    )


def _needs_more(container: ContainerWire) -> bool:
    """Return True if a container needs a host port, a device, or another resource."""
    if container.ports and any(each.host_port for each in container.ports):
        return True
    resources = container.resources
    if resources is None:
        return False
    return bool(resources.claims) or any(
        bytes(amount) not in _ZEROS
        for given in (resources.requests, resources.limits)
        if given and not _KNOWN_RESOURCES.issuperset(given)
        for name, amount in given.items()
        if name not in _KNOWN_RESOURCES
    )


def _is_windows(spec: NewPodSpec) -> bool:
    """Return True if the pod runs on Windows, by its `os` or by its node selector alone."""
    # `spec.os` is authoritative where it is set; the label is how older manifests choose nodes.
    if spec.os is not None and spec.os.name:
        return spec.os.name == _WINDOWS
    return spec.node_selector is not None and spec.node_selector.get(_OS_LABEL) == _WINDOWS


def convert_template(source: PodTemplateWire, namespace: str) -> Pod:
    """Return the pod that a template describes, without a name; paths begin at the template."""
    spec, meta = source.spec or _NO_SPEC, source.metadata or NO_METADATA
    init = init_containers.summarize(spec.init_containers)
    return Pod(
        namespace=intern(namespace),
        name="",
        labels=metadata.text_map(meta.labels),
        containers=containers.list_containers(spec, _NO_STATUS),
        envelope=_convert_envelope(spec.resources, init.peak),
        placement=convert_placement(spec.node_selector, spec.affinity, spec.tolerations),
        init_peak=init.peak,
        init_requests=init.requests,
        overhead=quantities.decode_amounts(spec.overhead, "spec.overhead"),
    )


def _with_proportions(
    own: tuple[Container, ...], annotations: Mapping[str, str | None] | None
) -> tuple[Container, ...]:
    if not annotations or not any(name.startswith(LIMITS_PREFIX) for name in annotations):
        return own
    texts = metadata.text_map(annotations)
    return tuple(limit_ratios.with_proportions(each, texts) for each in own)


def _convert_envelope(source: ResourcesWire | None, init_peak: Allocation) -> Envelope | None:
    own = containers.convert_allocation(source, "spec.resources")
    if own is None:
        return None
    return Envelope(own.requests or {}, own.limits or {}, init_peak.requests or {})
