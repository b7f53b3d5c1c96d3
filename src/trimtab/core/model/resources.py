"""CPU and memory amounts.

CPU is counted in whole millicores, memory in whole bytes, both as int. A quantity finer than
that is rounded up when it is decoded, as the original does (`docs/decisions/0002`). Whatever
holds for both resources is one function over `Resource`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias


class Resource(StrEnum):
    """A resource that a vertical autoscaler controls; the value is its name on the wire."""

    CPU = "cpu"
    MEMORY = "memory"


Resources: TypeAlias = Mapping[Resource, int]
"""Amounts by resource: millicores of CPU, bytes of memory. A missing key means "not set"."""

BOTH: Final = (Resource.CPU, Resource.MEMORY)
"""Both resources in the fixed order in which everything is written out."""

MAX_AMOUNT: Final = 2**63 - 1
"""The largest amount that a Kubernetes quantity holds as an integer."""
