"""Recommendations of a report as files: kustomize patches, or autoscalers, one per workload.

Each namespace has a folder. Patches come with a kustomize Component that lists them, so that an
overlay takes them all with one line. A patch names its target by kind and name, so an overlay
without that workload ignores it.

Folders may hold other files. The first line of a file that a report wrote says so, and a report
overwrites only such files. Names come from owner references, which may contain anything.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, assert_never

import yaml

from trimtab.cli.errors import FailedError
from trimtab.cli.flags import types
from trimtab.cli.output import amounts
from trimtab.cli.report.flags import PatchKind
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import ContainerKind
from trimtab.core.report.sizes import ContainerSizing, WorkloadSizing

_TEMPLATES: Final = {
    "CronJob": ("batch/v1", ("spec", "jobTemplate", "spec", "template", "spec")),
    "DaemonSet": ("apps/v1", ("spec", "template", "spec")),
    "Deployment": ("apps/v1", ("spec", "template", "spec")),
    "ReplicaSet": ("apps/v1", ("spec", "template", "spec")),
    "ReplicationController": ("v1", ("spec", "template", "spec")),
    "StatefulSet": ("apps/v1", ("spec", "template", "spec")),
}
"""API version and path of the containers, by the kinds that kustomize can patch by name."""
_JOB: Final = {"Job": "batch/v1"}
_SUFFIX: Final = ".yaml"
_LIST: Final = f"kustomization{_SUFFIX}"
_MODE: Final = "Off"
"""Update mode of new autoscalers: their owner decides when pods may change."""
_SIGNATURE: Final = "# Written by trimtab report, and written anew by the next one.\n"
_FILE_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", re.ASCII)
"""Names of objects; no path that leaves a folder matches."""


@dataclass(frozen=True, slots=True)
class PatchFile:
    """A file to write."""

    path: str
    """Relative to the folder of --out."""
    text: str


@dataclass(frozen=True, slots=True)
class Patches:
    """All files, and the workloads without one, for people."""

    files: tuple[PatchFile, ...]
    left_out: tuple[str, ...]


def write_patches(patches: Patches, folder: Path) -> None:
    """Write all files; a FailedError, before any is written, if one would replace another's."""
    strange = [file.path for file in patches.files if not _is_ours(folder / file.path)]
    if strange:
        raise FailedError(
            f"nothing was written to {folder}: {', '.join(strange)} there is not from a report; "
            "try another --out"
        )
    for file in patches.files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_SIGNATURE + file.text, encoding="utf-8")


def _is_ours(path: Path) -> bool:
    """Return True if there is no such file, or a report wrote it."""
    if not path.exists():
        return True
    with path.open("rb") as found:
        return found.readline() == _SIGNATURE.encode()


def draft_patches(
    workloads: Sequence[WorkloadSizing], kind: PatchKind, least_history: timedelta = timedelta(0)
) -> Patches:
    """Draft the files for all workloads that have recommendations from enough history.

    An autoscaler in mode Off has no amounts, so it needs no history.
    """
    counts = Counter(each.workload for each in workloads)
    judged = [
        (each, _why_not(each, kind, counts[each.workload]) or _why_thin(each, kind, least_history))
        for each in workloads
    ]
    chosen = [each for each, reason in judged if not reason]
    left_out = [
        f"{each.workload.namespace}/{each.workload.kind.lower()}/{each.workload.name}: {reason}"
        for each, reason in judged
        if reason
    ]
    match kind:
        case PatchKind.KUSTOMIZE:
            files = [_file(each, _patch(each)) for each in chosen]
            files += _components(chosen)
        case PatchKind.VPA:
            names = Counter(map(_place, chosen))
            files = [
                _file(each, _autoscaler(each, is_unique=names[_place(each)] == 1))
                for each in chosen
            ]
        case _:
            assert_never(kind)
    return Patches(tuple(files), tuple(left_out))


def _why_not(workload: WorkloadSizing, kind: PatchKind, parts: int) -> str:
    """Return why a workload of so many parts has no file; empty if it has one."""
    name = workload.workload
    if not any(_resources(workload)):
        return "nothing is recommended"
    if not _FILE_NAME.fullmatch(_file_name(workload).removesuffix(_SUFFIX)):
        return "it has no name of an object"
    if kind is PatchKind.VPA:
        if workload.autoscaler is not None:
            return f"it has the autoscaler {workload.autoscaler.name}"
        return "" if _api_version(workload) else "no autoscaler can be for it"
    if parts > 1:
        return "its pods are of different sizes"
    return "" if name.kind in _TEMPLATES else f"kustomize cannot patch a {name.kind}"


def _why_thin(workload: WorkloadSizing, kind: PatchKind, least: timedelta) -> str:
    """Return why the history is too short for a patch; empty if it is long enough."""
    thin = [one for one in workload.containers if one.is_thin(least)]
    if kind is not PatchKind.KUSTOMIZE or not thin:
        return ""
    seen = min(one.learned.span for one in thin)
    shown = types.format_span(timedelta(seconds=int(seen.total_seconds())))
    return f"it has {shown} of history, less than {types.format_span(least)} (--allow-thin-data)"


def _api_version(workload: WorkloadSizing) -> str:
    kind = workload.workload.kind
    known = _TEMPLATES.get(kind, (_JOB.get(kind, ""), ()))[0]
    return known or workload.api_version


def _patch(workload: WorkloadSizing) -> dict[str, object]:
    """Return a strategic merge patch, which works for a server-side apply as well."""
    name = workload.workload
    api_version, path = _TEMPLATES[name.kind]
    body: dict[str, object] = {
        place.value: [
            {"name": container.name, "resources": given}
            for container, given in _resources(workload)
            if container.kind is place
        ]
        for place in ContainerKind
        if any(container.kind is place for container, _ in _resources(workload))
    }
    for part in reversed(path):
        body = {part: body}
    metadata = {"name": name.name, "namespace": name.namespace}
    return {"apiVersion": api_version, "kind": name.kind, "metadata": metadata, **body}


def _resources(
    workload: WorkloadSizing,
) -> Iterator[tuple[ContainerSizing, dict[str, dict[str, str]]]]:
    """Yield the recommended resources of each container that has any."""
    for container in workload.containers:
        recommended = container.recommended
        if recommended is None:
            continue
        requests = amounts.write_quantities(recommended.requests or NO_AMOUNTS)
        limits = amounts.write_quantities(recommended.limits or NO_AMOUNTS)
        given = {"requests": requests} | ({"limits": limits} if limits else {})
        if requests:
            yield container, given


def _components(workloads: Sequence[WorkloadSizing]) -> Iterator[PatchFile]:
    for namespace in dict.fromkeys(each.workload.namespace for each in workloads):
        mine = [each for each in workloads if each.workload.namespace == namespace]
        patches = [
            {
                "path": _file_name(each),
                "target": {"kind": each.workload.kind, "name": each.workload.name},
            }
            for each in mine
        ]
        component = {
            "apiVersion": "kustomize.config.k8s.io/v1alpha1",
            "kind": "Component",
            "patches": patches,
        }
        yield PatchFile(f"{namespace}/{_LIST}", _dump(component))


def _autoscaler(workload: WorkloadSizing, *, is_unique: bool) -> dict[str, object]:
    name = workload.workload
    own = name.name if is_unique else f"{name.kind.lower()}-{name.name}"
    target = {"apiVersion": _api_version(workload), "kind": name.kind, "name": name.name}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": own, "namespace": name.namespace},
        "spec": {"targetRef": target, "updatePolicy": {"updateMode": _MODE}},
    }


def _place(workload: WorkloadSizing) -> tuple[str, str]:
    return workload.workload.namespace, workload.workload.name


def _file(workload: WorkloadSizing, manifest: Mapping[str, object]) -> PatchFile:
    path = f"{workload.workload.namespace}/{_file_name(workload)}"
    return PatchFile(path, _dump(manifest))


def _file_name(workload: WorkloadSizing) -> str:
    return f"{workload.workload.kind.lower()}-{workload.workload.name}{_SUFFIX}"


def _dump(manifest: Mapping[str, object]) -> str:
    return yaml.safe_dump(dict(manifest), sort_keys=False)
