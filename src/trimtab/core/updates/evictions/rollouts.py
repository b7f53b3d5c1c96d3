"""Rollouts of another template: evictions must not carry on with one that its owner has stopped.

A StatefulSet changes one pod after the other, a DaemonSet a few at a time, and both stop where pods
do not get ready. With `OnDelete` they change none by themselves.
"""

from typing import Final

from trimtab.core.guards import disruption_budgets
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.updates.evictions.successors import ordinal_of
from trimtab.core.updates.snapshot import Snapshot

DAEMON_SET: Final = "DaemonSet"
_REVISION_LABEL: Final = "controller-revision-hash"
_GENERATION_LABEL: Final = "pod-template-generation"
"""Label in which a DaemonSet, whose status names no revision, writes the number of a template."""


def would_change(pod: Pod, owner: WorkloadName, snapshot: Snapshot) -> bool:
    """Return True if the pod's successor may have another template than the pod."""
    if (revision := snapshot.staged_revisions.get(owner)) is None:
        return False
    ordinal = ordinal_of(pod)
    if ordinal is not None and ordinal < snapshot.staged_from.get(owner, 0):
        # A partition keeps it.
        return False
    return not _has_revision(pod, owner, revision)


def is_in_doubt(owner: WorkloadName, snapshot: Snapshot) -> bool:
    """Return True if a pod of the new revision is not ready, so that the revision may be bad."""
    revision = snapshot.staged_revisions.get(owner, "")
    return any(
        each.pod.ready_since is None
        and disruption_budgets.owner_of(each.pod) == owner
        and _has_revision(each.pod, owner, revision)
        for each in snapshot.pods
    )


def _has_revision(pod: Pod, owner: WorkloadName, revision: str) -> bool:
    label = _GENERATION_LABEL if owner.kind == DAEMON_SET else _REVISION_LABEL
    return bool(revision) and pod.labels.get(label) == revision
