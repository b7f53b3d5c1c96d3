"""Kubernetes quantities: text to exact numbers and back."""

from trimtab.core.resources import Resource


class QuantityError(ValueError):
    """Text that is not a Kubernetes quantity."""


def parse_amount(resource: Resource, text: str) -> int:
    """Millicores of CPU or bytes of memory, rounded up."""
    raise NotImplementedError


def format_amount(resource: Resource, amount: int) -> str:
    """The canonical quantity of an amount."""
    raise NotImplementedError
