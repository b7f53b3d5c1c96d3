"""Reports of the role keeper on its ticks and acts, from which logs and metrics follow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from trimtab.core.model.pods import Pod
from trimtab.core.roles import RolePlan


class RoleChange(StrEnum):
    """Change of a pod's label."""

    GIVE = "Give"
    TAKE = "Take"


@dataclass(frozen=True, slots=True)
class RoleViewNotReady:
    """Nothing was planned: the view of the cluster is too old, or not complete yet."""


@dataclass(frozen=True, slots=True)
class RolesPlanned:
    """The plans of all groups."""

    plans: Sequence[RolePlan]


@dataclass(frozen=True, slots=True)
class Changed:
    """A pod got the role, or lost it."""

    plan: RolePlan
    pod: Pod
    change: RoleChange


@dataclass(frozen=True, slots=True)
class Outdated:
    """A lease differs from the view of it, so its group was not changed yet."""

    plan: RolePlan


@dataclass(frozen=True, slots=True)
class RoleChangeFailed:
    """The change of a group failed; the next tick tries again."""

    plan: RolePlan
    error: Exception


@dataclass(frozen=True, slots=True)
class Broken:
    """A tick failed as a whole."""

    error: Exception


RoleReport: TypeAlias = (
    RoleViewNotReady | RolesPlanned | Changed | Outdated | RoleChangeFailed | Broken
)
RoleReportSink: TypeAlias = Callable[[RoleReport], None]


def discard(_: RoleReport) -> None:
    """Discard the report."""
