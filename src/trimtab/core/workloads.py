"""What deciders know of a workload: who owns it, which pods are its own, how many it wants."""

from dataclasses import dataclass

from trimtab.core.pods import OwnerReference, WorkloadName
from trimtab.core.selectors import Selector


@dataclass(frozen=True, slots=True)
class Workload:
    """Whatever owns pods, directly or through others."""

    name: WorkloadName
    owner: OwnerReference | None = None
    selector: Selector | None = None
    """Which pods are its own; None if it does not say, and then none are."""
    replicas: int | None = None
    """How many pods it should have; None for kinds that do not count them."""
    uid: str = ""
    """Tells it from an earlier one of the same name."""
    role_lease: str = ""
    """The lease whose holder has the role among its pods; empty if it names none."""
