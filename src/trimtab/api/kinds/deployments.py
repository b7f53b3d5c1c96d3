"""Deployments that run a component of Trimtab or of the original autoscaler, and their pods.

Ours are recognised by the chart's labels, the program or the image; the original by its images.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec

from trimtab.api.wire import codec, metadata
from trimtab.api.wire.codec import Int32, Wire
from trimtab.api.wire.metadata import NO_METADATA, Metadata
from trimtab.core.diagnosis.components import Component, Installed

_OURS: Final = "trimtab"
_PART_OF: Final = "app.kubernetes.io/part-of"
_COMPONENT: Final = "app.kubernetes.io/component"
_ONE_NAMESPACE: Final = "--vpa-object-namespace"
_SECURE: Final = "--metrics-secure"
_NO: Final = frozenset({"false", "no", "0"})
_ORIGINALS: Final = {
    f"vpa-{component}": component
    for component in (Component.RECOMMENDER, Component.UPDATER, Component.ADMISSION)
}
"""Names of the original's images, whatever the registry."""


class _Container(Wire, frozen=True, kw_only=True):
    image: str | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None


class _PodSpec(Wire, frozen=True, kw_only=True):
    containers: tuple[_Container, ...] | None = None
    service_account_name: str | None = None


class _Template(Wire, frozen=True, kw_only=True):
    spec: _PodSpec | None = None


class _Selector(Wire, frozen=True, kw_only=True):
    match_labels: dict[str, str | None] | None = None


class _Spec(Wire, frozen=True, kw_only=True):
    replicas: Int32 | None = None
    selector: _Selector | None = None
    template: _Template | None = None


class _Status(Wire, frozen=True, kw_only=True):
    ready_replicas: Int32 | None = None


class _Deployment(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


class _Ended(Wire, frozen=True, kw_only=True):
    reason: str | None = None


class _State(Wire, frozen=True, kw_only=True):
    waiting: _Ended | None = None
    terminated: _Ended | None = None


class _ContainerStatus(Wire, frozen=True, kw_only=True):
    name: str | None = None
    restart_count: Int32 | None = None
    state: _State | None = None
    last_state: _State | None = None


class _PodStatus(Wire, frozen=True, kw_only=True):
    container_statuses: tuple[_ContainerStatus, ...] | None = None


class _Pod(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    status: _PodStatus | None = None


_DECODER: Final = msgspec.json.Decoder(_Deployment)
_POD: Final = msgspec.json.Decoder(_Pod)
_NO_STATE: Final = _State()


def decode_component(data: bytes) -> Installed | None:
    """Return the component that the Deployment in the JSON runs; None for other Deployments."""
    source = codec.decode(_DECODER, data)
    meta, spec = source.metadata or NO_METADATA, source.spec or _Spec()
    pods = (spec.template or _Template()).spec or _PodSpec()
    labels = metadata.text_map(meta.labels)
    found = _find(labels, pods.containers or ())
    if found is None:
        return None
    component, is_ours = found
    return Installed(
        namespace=meta.namespace or "",
        name=meta.name or "",
        component=component,
        is_ours=is_ours,
        wanted=1 if spec.replicas is None else spec.replicas,
        ready=(source.status or _Status()).ready_replicas or 0,
        account=pods.service_account_name or "default",
        labels=metadata.text_map((spec.selector or _Selector()).match_labels),
        watched=_last_given(pods.containers or (), _ONE_NAMESPACE) or "",
        is_secure=_is_on(_last_given(pods.containers or (), _SECURE)),
    )


def _find(
    labels: dict[str, str], containers: tuple[_Container, ...]
) -> tuple[Component, bool] | None:
    for container in containers:
        image = (container.image or "").partition("@")[0].rpartition("/")[2].partition(":")[0]
        for name, component in _ORIGINALS.items():
            # Builds for one architecture carry it in their name.
            if image == name or image.startswith(f"{name}-"):
                return component, False
        words = (*(container.command or ()), *(container.args or ()))
        programs = {word.rpartition("/")[2] for word in words[:1]}
        if _OURS in (labels.get(_PART_OF), image) or _OURS in programs:
            named = (labels.get(_COMPONENT, ""), *words)
            known = [Component(word) for word in named if word in set(Component)]
            if known:
                return known[0], True
    return None


def _last_given(containers: tuple[_Container, ...], name: str) -> str | None:
    """Return the effective value of a flag; empty without a value, None without the flag."""
    flags = [word.partition("=") for one in containers for word in one.args or ()]
    given = [value for flag, _, value in flags if flag == name]
    return given[-1] if given else None


def _is_on(value: str | None) -> bool:
    return value is not None and value.lower() not in _NO


def with_pod(installed: Installed, data: bytes) -> Installed:
    """Return the component with the troubles and restarts of the pod in the JSON added."""
    source = codec.decode(_POD, data)
    name = (source.metadata or NO_METADATA).name or ""
    statuses = (source.status or _PodStatus()).container_statuses or ()
    reasons = tuple(f"{name}: {reason}" for status in statuses for reason in _reasons(status))
    restarts = max((status.restart_count or 0 for status in statuses), default=0)
    return replace(
        installed,
        troubles=(*installed.troubles, *reasons),
        restarts=max(installed.restarts, restarts),
    )


def _reasons(status: _ContainerStatus) -> Iterator[str]:
    """Yield the reasons why a container does not run, or did not before its last restart."""
    state, last = status.state or _NO_STATE, status.last_state or _NO_STATE
    for each in (state.waiting, state.terminated, last.terminated):
        if each is not None and each.reason and each.reason != "Completed":
            yield each.reason


class _Conditions(Wire, frozen=True, kw_only=True):
    ready: bool | None = None


class _Endpoint(Wire, frozen=True, kw_only=True):
    addresses: tuple[str, ...] | None = None
    conditions: _Conditions | None = None


class _Slice(Wire, frozen=True, kw_only=True):
    endpoints: tuple[_Endpoint, ...] | None = None


_SLICE_DECODER: Final = msgspec.json.Decoder(_Slice)


def decode_ready_addresses(data: bytes) -> frozenset[str]:
    """Return the addresses in the JSON of one EndpointSlice, except those that are not ready."""
    endpoints = codec.decode(_SLICE_DECODER, data).endpoints or ()
    return frozenset(
        address
        for one in endpoints
        if (one.conditions or _Conditions()).ready is not False
        for address in one.addresses or ()
    )
