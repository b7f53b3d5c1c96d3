"""Facts about the direct owners of pods, in the shape in which plans ask for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from trimtab.core.model.pods import Allocation, WorkloadName
from trimtab.updater.pod_owners import OwnerKey, Ownership, workload_name


@dataclass(frozen=True, slots=True)
class OwnerFacts:
    """Facts by the name of the direct owner; an owner that does not say something has no entry."""

    configured: dict[WorkloadName, int]
    """Number of pods that it wants."""
    first_ordinals: dict[WorkloadName, int]
    template_sizes: dict[WorkloadName, Mapping[str, Allocation]]
    min_ready: dict[WorkloadName, timedelta]
    staged_revisions: dict[WorkloadName, str]
    staged_from: dict[WorkloadName, int]
    rolling_out: frozenset[WorkloadName]


def facts_of_owners(owners: Mapping[OwnerKey, Ownership]) -> OwnerFacts:
    """Return the facts about all of these owners."""
    known = [(workload_name(key), found) for key, found in owners.items()]
    return OwnerFacts(
        {name: each.configured for name, each in known if each.configured is not None},
        {name: each.first_ordinal for name, each in known if each.first_ordinal is not None},
        {name: each.sizes for name, each in known if each.sizes is not None},
        {name: each.min_ready for name, each in known if each.min_ready},
        {name: each.staged_revision for name, each in known if each.staged_revision is not None},
        {name: each.staged_from for name, each in known if each.staged_from},
        frozenset([name for name, each in known if each.is_rolling_out]),
    )
