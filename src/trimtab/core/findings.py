"""Findings: what was found about all live pods, from one plan of all of them to the next.

Where nothing happened to a place (`known_pods.py`) no pod of it is asked again, so a plan costs as
much as has changed. Like all that is kept of pods this is a matter of speed alone.
"""

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime

from trimtab.core.assessment import Candidate, Context
from trimtab.core.known_pods import Basis, KnownPod, LivePods, Place, find
from trimtab.core.matching import AutoscalerIndex
from trimtab.core.outcomes import Hold
from trimtab.core.records import dataclass


@dataclass(slots=True)
class _Part:
    """The pods of one place, and for how long all that was found about them holds."""

    positions: list[int] = field(default_factory=list)
    pods: list[KnownPod] = field(default_factory=list)
    basis: Basis | None = None
    since: datetime | None = None
    until: datetime | None = None

    def holds(self, basis: Basis | None, now: datetime) -> bool:
        """Whether another look at the pods would find the same, if they remember the same."""
        if self.basis is not basis or self.since is None or self.until is None:
            return False
        return self.since <= now < self.until


class Findings:
    """What plans of all pods found last."""

    def __init__(self) -> None:
        self._live: LivePods | None = None
        self._memory: object = None
        """The very map of all memories: another may hold something else."""
        self._parts: dict[Place, _Part] = {}
        self._found: list[Candidate | Hold | None] = []

    def renew(
        self, live: LivePods, index: AutoscalerIndex, context: Context
    ) -> Sequence[Candidate | Hold | None]:
        """What is found now about each of the pods; None where no autoscaler governs it."""
        if not context.snapshot.is_all:
            return [find(known, index, context).assessment for known in live.pods]
        memory = context.snapshot.pod_memory
        if live is not self._live or memory is not self._memory:
            self._begin_anew(live)
        self._live, self._memory = live, memory
        for place, part in self._parts.items():
            if not part.holds(place.basis, context.now):
                self._look(part, index, context)
        return self._found

    def _begin_anew(self, live: LivePods) -> None:
        self._found = [None] * len(live.pods)
        self._parts = {place: _Part() for place in live.places}
        for position, known in enumerate(live.pods):
            part = self._parts[known.place]
            part.positions.append(position)
            part.pods.append(known)

    def _look(self, part: _Part, index: AutoscalerIndex, context: Context) -> None:
        found = [find(known, index, context) for known in part.pods]
        for position, finding in zip(part.positions, found, strict=True):
            self._found[position] = finding.assessment
        part.basis = part.pods[0].place.basis
        part.since = max(finding.since for finding in found)
        part.until = min(finding.until for finding in found)
