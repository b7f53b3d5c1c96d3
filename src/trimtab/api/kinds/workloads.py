"""Workloads: the well-known kinds that own pods, and Scale for all others."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

import msgspec

from trimtab.api.kinds.pod_parts.wire import PodTemplateWire
from trimtab.api.kinds.pods import convert_template
from trimtab.api.kinds.selectors import LabelSelector, convert_selector, select_labels
from trimtab.api.wire import codec, metadata, quantities, selector_text
from trimtab.api.wire.codec import DecodeError, Int32, Int64, Wire
from trimtab.api.wire.metadata import NO_METADATA, Metadata
from trimtab.api.wire.quantities import WireAmounts
from trimtab.core.model.pods import ROLE_LEASE, Allocation, WorkloadName
from trimtab.core.model.selectors import Selector
from trimtab.core.model.workloads import Workload


class _Resources(Wire, frozen=True, kw_only=True):
    requests: WireAmounts | None = None
    limits: WireAmounts | None = None


class _Container(Wire, frozen=True, kw_only=True):
    name: str | None = None
    resources: _Resources | None = None


class _PodSpec(Wire, frozen=True, kw_only=True):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None


class _SizedTemplate(Wire, frozen=True, kw_only=True):
    spec: _PodSpec | None = None


class _Selecting(Wire, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    replicas: Int32 | None = None


class _ReplicaSetSpec(Wire, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    replicas: Int32 | None = None
    template: _SizedTemplate | None = None


class _RollingUpdate(Wire, frozen=True, kw_only=True):
    partition: Int32 | None = None


class _UpdateStrategy(Wire, frozen=True, kw_only=True):
    type: str | None = None
    rolling_update: _RollingUpdate | None = None


class _Ordinals(Wire, frozen=True, kw_only=True):
    start: Int32 | None = None


class _StatefulSetSpec(Wire, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    replicas: Int32 | None = None
    pod_management_policy: str | None = None
    ordinals: _Ordinals | None = None
    template: _SizedTemplate | None = None
    min_ready_seconds: Int32 | None = None
    update_strategy: _UpdateStrategy | None = None


class _SelectingLabels(Wire, frozen=True, kw_only=True):
    selector: dict[str, str | None] | None = None
    replicas: Int32 | None = None
    template: _SizedTemplate | None = None


class _Template(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None


class _JobSpec(Wire, frozen=True, kw_only=True):
    template: _Template | None = None


class _JobTemplate(Wire, frozen=True, kw_only=True):
    spec: _JobSpec | None = None


class _CronJobSpec(Wire, frozen=True, kw_only=True):
    job_template: _JobTemplate | None = None


class _DaemonSetSpec(Wire, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    template: PodTemplateWire | None = None
    update_strategy: _UpdateStrategy | None = None


class _Condition(Wire, frozen=True, kw_only=True):
    type: str | None = None
    status: str | None = None
    reason: str | None = None


class _ReplicaStatus(Wire, frozen=True, kw_only=True):
    replicas: Int32 | None = None
    conditions: tuple[_Condition, ...] | None = None


class _JobStatus(Wire, frozen=True, kw_only=True):
    active: Int32 | None = None
    succeeded: Int32 | None = None
    failed: Int32 | None = None


class _Status(Wire, frozen=True, kw_only=True):
    desired_number_scheduled: Int32 | None = None
    current_number_scheduled: Int32 | None = None
    updated_number_scheduled: Int32 | None = None
    number_ready: Int32 | None = None
    observed_generation: Int64 | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    replicas: Int32 | None = None


class _Controller(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _Selecting | None = None
    status: _Status | None = None


class _ReplicaSet(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _ReplicaSetSpec | None = None
    status: _ReplicaStatus | None = None


class _DaemonSet(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _DaemonSetSpec | None = None
    status: _Status | None = None


class _StatefulSet(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _StatefulSetSpec | None = None
    status: _Status | None = None


class _ReplicationController(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _SelectingLabels | None = None
    status: _ReplicaStatus | None = None


class _Job(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _Selecting | None = None
    status: _JobStatus | None = None


class _CronJob(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _CronJobSpec | None = None


class _ScaleSpec(Wire, frozen=True, kw_only=True):
    replicas: Int32 | None = None


class _ScaleStatus(Wire, frozen=True, kw_only=True):
    selector: str | None = None


class _Scale(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _ScaleSpec | None = None
    status: _ScaleStatus | None = None


WELL_KNOWN_KINDS: Final = (
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
)
"""Kinds that are read directly; others are read through their scale subresource."""

_CONTROLLER: Final = msgspec.json.Decoder(_Controller)
_DAEMON_SET: Final = msgspec.json.Decoder(_DaemonSet)
_JOB: Final = msgspec.json.Decoder(_Job)
_REPLICA_SET: Final = msgspec.json.Decoder(_ReplicaSet)
_REPLICATION_CONTROLLER: Final = msgspec.json.Decoder(_ReplicationController)
_STATEFUL_SET: Final = msgspec.json.Decoder(_StatefulSet)
_CRON_JOB: Final = msgspec.json.Decoder(_CronJob)
_SCALE: Final = msgspec.json.Decoder(_Scale)
_PARALLEL: Final = "Parallel"
_ON_DELETE: Final = "OnDelete"
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
"""Annotation in which the API server counts the templates of a DaemonSet."""
_CREATES_NONE: Final = _Condition(type="ReplicaFailure", status="True", reason="FailedCreate")
"""Condition of a ReplicaSet or ReplicationController whose latest pod was refused."""


def decode_workload(kind: str, data: bytes) -> Workload:
    """Return the workload in the JSON of one object of a well-known kind (`WELL_KNOWN_KINDS`)."""
    return _DECODERS.get(kind, _decode_controller)(kind, data)


def decode_scale(kind: str, data: bytes) -> Workload:
    """Return the workload of any other kind, from the JSON of its scale subresource."""
    source = codec.decode(_SCALE, data)
    text = (source.status or _ScaleStatus()).selector
    selector = selector_text.decode_selector_text(text, "status.selector") if text else None
    replicas = (source.spec or _ScaleSpec()).replicas
    return _name_workload(kind, source.metadata, selector, replicas)


def _decode_controller(kind: str, data: bytes) -> Workload:
    source = codec.decode(_CONTROLLER, data)
    spec = source.spec or _Selecting()
    status = source.status or _Status()
    selector = convert_selector(spec.selector, "spec.selector")
    return _name_workload(kind, source.metadata, selector, spec.replicas, status.replicas)


def _decode_replica_set(kind: str, data: bytes) -> Workload:
    source = codec.decode(_REPLICA_SET, data)
    spec = source.spec or _ReplicaSetSpec()
    selector = convert_selector(spec.selector, "spec.selector")
    workload = _with_failure(
        _name_workload(kind, source.metadata, selector, spec.replicas), source.status
    )
    # Deployments keep ReplicaSets of earlier templates, which create no pods.
    return workload if spec.replicas == 0 else _with_sizes(workload, spec.template)


def _decode_daemon_set(kind: str, data: bytes) -> Workload:
    source = codec.decode(_DAEMON_SET, data)
    spec = source.spec or _DaemonSetSpec()
    status = source.status or _Status()
    selector = convert_selector(spec.selector, "spec.selector")
    # A DaemonSet has no `spec.replicas`: the controller counts the nodes that should run a pod.
    replicas, existing = status.desired_number_scheduled, status.current_number_scheduled
    workload = _name_workload(kind, source.metadata, selector, replicas, existing)
    is_known = _is_current(status, source.metadata)
    # Before the controller has seen the new template, it still counts by the old one.
    updated = status.updated_number_scheduled if is_known else None
    workload = replace(workload, ready=status.number_ready, updated=updated)
    is_on_delete = _is_on_delete(spec.update_strategy)
    # The API server leaves out a number of none.
    if (is_known or is_on_delete) and (updated or 0) < (existing or 0):
        annotations = (source.metadata or NO_METADATA).annotations or {}
        workload = replace(
            workload,
            staged_revision=annotations.get(_TEMPLATE_GENERATION) or "",
            is_rolling_out=not is_on_delete,
        )
    if spec.template is None:
        return workload
    template = convert_template(spec.template, workload.name.namespace)
    sizes = {each.name: each.spec for each in template.containers}
    return replace(workload, template=template, sizes=sizes)


def _decode_stateful_set(kind: str, data: bytes) -> Workload:
    source = codec.decode(_STATEFUL_SET, data)
    spec = source.spec or _StatefulSetSpec()
    selector = convert_selector(spec.selector, "spec.selector")
    status = source.status or _Status()
    workload = _with_sizes(
        _name_workload(kind, source.metadata, selector, spec.replicas, status.replicas),
        spec.template,
    )
    if _is_on_delete(spec.update_strategy):
        is_known = _is_current(status, source.metadata)
        # With OnDelete only a deletion brings the new revision, so no rollout is under way.
        revision = status.update_revision if is_known else None
        workload = replace(workload, staged_revision=revision or "")
    elif status.update_revision != status.current_revision:
        # A rollout is under way, or stuck: it waits for each pod to be ready.
        workload = replace(
            workload,
            staged_revision=status.update_revision or "",
            # Pods below the partition come back with the old revision (API:
            # rollingUpdate.partition).
            staged_from=_first_ordinal(spec) + _partition(spec.update_strategy),
            is_rolling_out=True,
        )
    if spec.pod_management_policy == _PARALLEL:
        return workload
    # OrderedReady is the default.
    return replace(
        workload,
        first_ordinal=_first_ordinal(spec),
        min_ready=timedelta(seconds=max(spec.min_ready_seconds or 0, 0)),
    )


def _first_ordinal(spec: _StatefulSetSpec) -> int:
    return (spec.ordinals or _Ordinals()).start or 0


def _is_on_delete(strategy: _UpdateStrategy | None) -> bool:
    return strategy is not None and strategy.type == _ON_DELETE


def _partition(strategy: _UpdateStrategy | None) -> int:
    """Return the number of pods of a StatefulSet that come back as they were, the first ones."""
    rolling = None if strategy is None else strategy.rolling_update
    return (rolling.partition if rolling is not None else None) or 0


def _is_current(status: _Status, meta: Metadata | None) -> bool:
    """Return False if the status is older than the spec, and so not about its template."""
    generation = (meta or NO_METADATA).generation or 0
    return (status.observed_generation or 0) >= generation


def _decode_replication_controller(kind: str, data: bytes) -> Workload:
    source = codec.decode(_REPLICATION_CONTROLLER, data)
    spec = source.spec or _SelectingLabels()
    selector = select_labels(spec.selector, "spec.selector")
    workload = _with_failure(
        _name_workload(kind, source.metadata, selector, spec.replicas), source.status
    )
    return _with_sizes(workload, spec.template)


def _decode_job(kind: str, data: bytes) -> Workload:
    source = codec.decode(_JOB, data)
    selector = convert_selector((source.spec or _Selecting()).selector, "spec.selector")
    status = source.status
    if status is None:
        return _name_workload(kind, source.metadata, selector)
    # Pods that have ended were created as well.
    created = (status.active or 0) + (status.succeeded or 0) + (status.failed or 0)
    return _name_workload(kind, source.metadata, selector, existing=created)


def _with_failure(workload: Workload, status: _ReplicaStatus | None) -> Workload:
    """Return the workload with its status: the number of pods, and refusals of new ones."""
    if status is None:
        return workload
    is_failing = _CREATES_NONE in (status.conditions or ())
    return replace(workload, existing=status.replicas, is_failing=is_failing)


def _with_sizes(workload: Workload, template: _SizedTemplate | None) -> Workload:
    """Return the workload with the resources of its template, if they can be read."""
    spec = None if template is None else template.spec
    if spec is None:
        return workload
    try:
        sizes = {
            each.name: quantities.decode_allocation(
                each.resources.requests, each.resources.limits, "spec"
            )
            if each.resources is not None
            else Allocation()
            for each in (*(spec.containers or ()), *(spec.init_containers or ()))
            if each.name is not None
        }
    # A template that cannot be read must not hide the workload: owners and replicas still count.
    except DecodeError:
        return workload
    return replace(workload, sizes=sizes)


def _decode_cron_job(kind: str, data: bytes) -> Workload:
    source = codec.decode(_CRON_JOB, data)
    # A CronJob selects nothing itself; its pods carry the labels of the innermost template.
    job_template = (source.spec or _CronJobSpec()).job_template or _JobTemplate()
    template = (job_template.spec or _JobSpec()).template or _Template()
    labels = (template.metadata or NO_METADATA).labels
    path = "spec.jobTemplate.spec.template.metadata.labels"
    return _name_workload(kind, source.metadata, select_labels(labels, path))


def _name_workload(
    kind: str,
    meta: Metadata | None,
    selector: Selector | None,
    replicas: int | None = None,
    existing: int | None = None,
) -> Workload:
    meta = meta or NO_METADATA
    return Workload(
        name=WorkloadName(meta.namespace or "", kind, meta.name or ""),
        owner=metadata.controlling_owner(meta),
        selector=selector,
        replicas=replicas,
        existing=existing,
        uid=meta.uid or "",
        role_lease=(meta.annotations or {}).get(ROLE_LEASE) or "",
    )


_DECODERS: Final = {
    "CronJob": _decode_cron_job,
    "DaemonSet": _decode_daemon_set,
    "Job": _decode_job,
    "ReplicaSet": _decode_replica_set,
    "ReplicationController": _decode_replication_controller,
    "StatefulSet": _decode_stateful_set,
}
