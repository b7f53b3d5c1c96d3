"""Amounts for people: rounded, with the usual unit."""

from typing import Final

from trimtab.core.histogram.buckets import CORE
from trimtab.core.model import quantities
from trimtab.core.model.recommendation import MIB
from trimtab.core.model.resources import BOTH, Resource, Resources

_GIB: Final = 1024 * MIB
TITLES: Final = {Resource.CPU: "CPU", Resource.MEMORY: "MEMORY"}


def show_amount(resource: Resource, amount: int | None) -> str:
    """Format an amount of one container; a dash if there is none."""
    if amount is None:
        return "-"
    if resource is Resource.CPU:
        return quantities.format_amount(resource, amount)
    # People compare sizes; exact bytes are for programs.
    return f"{-(-amount // MIB)}Mi"


def in_large_units(resource: Resource, amount: int) -> float:
    """Convert an amount to cores or GiB."""
    return amount / (CORE if resource is Resource.CPU else _GIB)


def show_large(resource: Resource, amount: int) -> str:
    """Format an amount of many containers, with its unit."""
    unit = "cores" if resource is Resource.CPU else "GiB"
    return f"{in_large_units(resource, amount):.2f} {unit}"


def write_quantities(amounts: Resources) -> dict[str, str]:
    """Format amounts as Kubernetes quantities."""
    return {
        resource.value: quantities.format_amount(resource, amounts[resource])
        for resource in BOTH
        if resource in amounts
    }
