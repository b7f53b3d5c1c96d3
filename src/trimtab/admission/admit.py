"""Admission of pods: one owner walk, one index lookup, one pure function, no network requests.

No error leaves this module: a pod about which anything is in doubt is admitted unchanged, and the
reason is counted. Only where more may be known in a moment (NotYetError) may the caller retry.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Final, TypeAlias

from msgspec.structs import replace

from trimtab.admission.logs import (
    RateLimitedLogger,
    Timer,
    log_unsized,
    log_withheld,
    stand_still,
    tell_of_size,
)
from trimtab.admission.owner_cache import NotYetError, ReadyOwners
from trimtab.admission.quota_grants import Arrivals, QuotaGrants
from trimtab.admission.settings import AdmissionSettings
from trimtab.admission.sizing_cache import CapBounds, IncomingPod, Sizings, WholePod
from trimtab.admission.target_index import TargetIndex, target_name
from trimtab.admission.withheld_sizes import Withholding
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.ports import Cluster
from trimtab.core.model import matching
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.hpa import HpaConflict, Marking, Scaling
from trimtab.core.model.json_patch import Patch
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Pod, PodHead, WorkloadName
from trimtab.core.sizing import admission_patch, daemon_sets
from trimtab.core.sizing.admission_patch import Sizing
from trimtab.core.sizing.node_capacity import NodeRooms
from trimtab.core.sizing.refusals import Withheld
from trimtab.core.sizing.startup_boost import BoostError

UNCHANGED: Final = Sizing()
_FAILED: Final = "admission failed"

_Gap: TypeAlias = tuple[WorkloadName, tuple[int, int]]
"""An owner with the number of pods that it wants, and the number in its status."""

_logger: Final = logging.getLogger(__name__)


class AdmitOutcome(StrEnum):
    """Outcome of admitting a pod; the value is its name in metrics."""

    PATCHED = "Patched"
    WITHHELD = "Withheld"
    """It got less than recommended, since pods of its owner with more were never created."""
    COMPLETE = "Complete"
    """An autoscaler governs it, and it already has everything that it should have."""
    UNGOVERNED = "Ungoverned"
    IGNORED = "NamespaceIgnored"
    OWNER_UNKNOWN = "OwnerUnknown"
    """Its owner is in doubt, or not known yet."""
    BOOST_INVALID = "BoostInvalid"
    """The autoscaler asks for a boost without giving its size."""
    TOO_LARGE = "TooLarge"
    """It has more containers, demands on nodes or annotations than admission examines."""
    FAILED = "Failed"
    """An error in Trimtab itself."""


class PodTooLargeError(Exception):
    """Raised for a pod admitted unchanged because of its size; the text names the excess."""


class Admission:
    """Gives new pods their recommended size."""

    def __init__(
        self,
        cluster: Cluster,
        settings: AdmissionSettings,
        teller: RateLimitedLogger | None = None,
        timer: Timer = stand_still,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._teller = teller or RateLimitedLogger()
        self.index = TargetIndex(cluster.autoscalers)
        self._owners = ReadyOwners(cluster.owners)
        self._sizings = Sizings(settings.gates)
        self._grants = QuotaGrants(timer)
        self._arrivals = Arrivals(timer)
        tell = partial(log_withheld, self._teller)
        self._withholding = Withholding(cluster.owners.known, timer, tell)
        self._marking: Marking | None = None
        if settings.hpa_conflict is HpaConflict.HOLD:
            by_target = cluster.horizontals.index(attrgetter("target"))
            by_namespace = cluster.horizontals.index(attrgetter("namespace"))
            scaling = Scaling(by_target.under, by_namespace.under, cluster.owners.known)
            self._marking = Marking(scaling.of)
        self._rooms: NodeRooms | None = None
        self._nodes_changed = True
        self.counts: Counter[AdmitOutcome] = Counter()

    async def run(self) -> None:
        """Keep up with the stores until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._owners.run())
            group.create_task(self._withholding.run())
            group.create_task(self._follow_targets())
            group.create_task(self._follow_nodes())
            group.create_task(self._follow_daemon_sets())

    def prepare(self) -> bool:
        """Look up what pods of all targets will need; return True once all of it was known.

        To be called repeatedly: until it returns True, the status lease must not be renewed.
        """
        self._nodes_changed = True
        named = ((target_name(each), _api_version(each)) for each in self._cluster.autoscalers)
        return self._owners.prepare((name, version) for name, version in named if name is not None)

    def admit(self, pod: Pod, *, may_wait: bool = False) -> Patch:
        """Return the patch for a new pod; empty if anything goes wrong."""
        return self.size(WholePod(pod), may_wait=may_wait).patch

    def size(self, new: IncomingPod, *, may_wait: bool = False, is_dry_run: bool = False) -> Sizing:
        """Return the patch for a new pod, and the containers whose size leaves no room in the pod.

        Most pods have no autoscaler, so only the head of a pod is read first, and more on demand.
        The caller handles a DecodeError, and a PodTooLargeError, which bounds the work for a pod.
        It also handles a NotYetError, raised if the request may wait and more may be known soon.
        A dry run takes nothing from quotas.
        """
        try:
            how, sizing = self._size(new, may_wait=may_wait, is_dry_run=is_dry_run)
        except (DecodeError, NotYetError):
            raise
        except PodTooLargeError:
            self.counts[AdmitOutcome.TOO_LARGE] += 1
            raise
        except BoostError:
            how, sizing = AdmitOutcome.BOOST_INVALID, UNCHANGED
        except Exception:
            # No error may keep a pod from being created.
            if self._teller.may_tell(_FAILED):
                _logger.exception(_FAILED)
            how, sizing = AdmitOutcome.FAILED, UNCHANGED
        self.counts[how] += 1
        return sizing

    def _size(
        self, new: IncomingPod, *, may_wait: bool, is_dry_run: bool
    ) -> tuple[AdmitOutcome, Sizing]:
        head = new.head
        if head.namespace in self._settings.ignored_namespaces:
            return AdmitOutcome.IGNORED, UNCHANGED
        # A namespace without autoscalers costs no lookup, and its pods never wait.
        if head.owner is None or not self.index.has_any(head.namespace):
            return AdmitOutcome.UNGOVERNED, self._unmark(new)
        owner = self._owners.find(head, may_wait=may_wait)
        workload = owner.topmost
        if workload is None:
            log_unsized(self._teller, head, owner.doubt)
            return AdmitOutcome.OWNER_UNKNOWN, self._unmark(new)
        autoscaler = self._governor(new.labels, workload, may_wait=may_wait)
        if autoscaler is None:
            return AdmitOutcome.UNGOVERNED, self._unmark(new)
        if excess := new.excess():
            raise PodTooLargeError(excess)
        if self._nodes_changed:
            self._look_at_nodes()
        if self._marking is not None:
            autoscaler = self._marking.mark(autoscaler)
        sizing = self._size_within_quotas(new, autoscaler, is_dry_run=is_dry_run)
        if not sizing.patch:
            return AdmitOutcome.COMPLETE, sizing
        tell_of_size(self._teller, head, autoscaler, sizing.patch)
        is_whole = sizing.withheld is Withheld.NOTHING
        return AdmitOutcome.PATCHED if is_whole else AdmitOutcome.WITHHELD, sizing

    def _unmark(self, new: IncomingPod) -> Sizing:
        """Remove marks of boosts that the pod did not get here; hardly any pod has such marks."""
        if not new.may_be_marked or new.excess():
            return UNCHANGED
        sizing = admission_patch.unmark_pod(new.read(), gates=self._settings.gates)
        return sizing if sizing.patch else UNCHANGED

    def _size_within_quotas(
        self, new: IncomingPod, autoscaler: Autoscaler, *, is_dry_run: bool
    ) -> Sizing:
        head = new.head
        # Most namespaces have no quota: for them, this costs one lookup.
        quotas = self._cluster.quotas(head.namespace)
        gap = self._find_gap(head) if quotas else None
        bounds = CapBounds(
            self._cluster.limit_ranges(head.namespace),
            self._settings.max_boost_millicores,
            self._rooms,
            self._grants.room_in(quotas),
            *self._count_siblings(gap),
            self._settings.max_boosted_priority,
        )
        sizing = self._sizings.size(new, autoscaler, bounds)
        withheld = self._withholding.choose(head, autoscaler, sizing.offer, is_dry_run=is_dry_run)
        if withheld is not Withheld.NOTHING:
            bounds = replace(bounds, withheld=withheld)
            sizing = self._sizings.size_once(new, autoscaler, bounds)
        if not is_dry_run and quotas:
            self._grants.note(quotas, sizing.claims)
            if gap is not None:
                self._arrivals.note(*gap)
        return sizing

    def _find_gap(self, head: PodHead) -> _Gap | None:
        """Return how many pods the pod's owner wants, and has; None if that is unknown."""
        owner = head.owner
        if owner is None:
            return None
        found = self._cluster.owners.known(WorkloadName(head.namespace, owner.kind, owner.name))
        if found is None or found.replicas is None or found.existing is None:
            return None
        return found.name, (found.replicas, found.existing)

    def _count_siblings(self, gap: _Gap | None) -> tuple[int, int]:
        """Count the pods that may come beside a new one, and those of them that are missing.

        An owner creates pods before its status shows how many are gone. Where the status shows no
        gap, any number of its pods may be missing.
        """
        if gap is None:
            return 0, 0
        wanted, existing = gap[1]
        missing = wanted - existing
        if missing <= 0:
            return max(wanted - 1, 0), 0
        return missing - 1, max(missing - 1 - self._arrivals.count(*gap), 0)

    def _look_at_nodes(self) -> None:
        cluster, rooms = self._cluster, self._rooms or NodeRooms(())
        if self._settings.caps_to_nodes:
            daemons = daemon_sets.list_daemons(
                cluster.daemon_sets, self._autoscalers_of, cluster.limit_ranges
            )
            # `renew` returns the same object without changes, so that cached sizes stay valid.
            rooms = rooms.renew(tuple(cluster.nodes), daemons)
        if rooms is not self._rooms:
            # Cached sizes of former rooms are invalid, and would keep former nodes in memory.
            self._sizings.clear()
        self._rooms = rooms
        self._nodes_changed = False

    async def _follow_targets(self) -> None:
        """Look up targets and their owners before their first pods come."""
        async for autoscaler in self._cluster.autoscalers.changes():
            # Sizes of its former version are useless now.
            self._sizings.forget(autoscaler.identity)
            if (name := target_name(autoscaler)) is not None:
                self._owners.prefetch(name, _api_version(autoscaler))

    def _autoscalers_of(self, workload: WorkloadName) -> Sequence[Autoscaler]:
        """Return the autoscalers that size new pods of a workload."""
        is_ignored = workload.namespace in self._settings.ignored_namespaces
        return () if is_ignored else self.index.find(workload)

    async def _follow_nodes(self) -> None:
        async for _ in self._cluster.nodes.changes():
            self._nodes_changed = True

    async def _follow_daemon_sets(self) -> None:
        async for _ in self._cluster.daemon_sets.changes():
            self._nodes_changed = True

    def _governor(
        self, labels: Mapping[str, str], workload: WorkloadName, *, may_wait: bool
    ) -> Autoscaler | None:
        """Return the autoscaler that sizes a pod of the workload; None if there is none."""
        candidates = self.index.find(workload)
        if not candidates:
            return None
        find = self._owners.selector
        observed = [
            ObservedAutoscaler(each, find(workload, _api_version(each), may_wait=may_wait))
            for each in candidates
        ]
        ranked = matching.rank(observed, selectors_enabled=self._settings.gates.pod_selector)
        for each in ranked:
            if matching.acts_on_new_pods(each.autoscaler) and each.matches(labels):
                return each.autoscaler
        return None


def _api_version(autoscaler: Autoscaler) -> str:
    return "" if autoscaler.target is None else autoscaler.target.api_version
