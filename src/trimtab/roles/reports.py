"""What the role keeper has to tell of its ticks and acts; logs and metrics follow from it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from trimtab.core.model.pods import Pod
from trimtab.core.roles import RolePlan


class RoleChange(StrEnum):
    """What is done to a pod."""

    GIVE = "Give"
    TAKE = "Take"


@dataclass(frozen=True, slots=True)
class RoleViewNotReady:
    """Nothing was found out: the view of the cluster is too old, or not complete yet."""


@dataclass(frozen=True, slots=True)
class RolesPlanned:
    """How all groups stand."""

    plans: Sequence[RolePlan]


@dataclass(frozen=True, slots=True)
class Changed:
    """A pod got the role, or lost it."""

    plan: RolePlan
    pod: Pod
    change: RoleChange


@dataclass(frozen=True, slots=True)
class Outdated:
    """A lease is not what the view of it shows, so nothing was done about its group yet."""

    plan: RolePlan


@dataclass(frozen=True, slots=True)
class RoleChangeFailed:
    """What was begun about a group could not be done; it is tried again at the next tick."""

    plan: RolePlan
    error: Exception


@dataclass(frozen=True, slots=True)
class Broken:
    """A tick failed as a whole."""

    error: Exception


News: TypeAlias = RoleViewNotReady | RolesPlanned | Changed | Outdated | RoleChangeFailed | Broken
RoleReportSink: TypeAlias = Callable[[News], None]


def tell_nobody(_: News) -> None:
    """Nobody wants to know."""
