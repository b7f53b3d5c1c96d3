"""Workloads of kinds that nobody here knows: found by discovery, read through their scale.

Answers are kept for a while: what the scale said, that there is none, and that it could not be
asked. What was known stays true while the server cannot be reached.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from trimtab.api.decoding import DecodeError
from trimtab.api.discovery import decode_scalable, decode_versions
from trimtab.api.workloads import decode_scale
from trimtab.cluster import paths
from trimtab.cluster.errors import ClusterError, ForbiddenError, NotFoundError
from trimtab.cluster.ports import Clock
from trimtab.cluster.rights import MissingRights
from trimtab.core.pods import WorkloadName
from trimtab.core.records import dataclass
from trimtab.core.workloads import Workload

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

SCALE_LIFE: Final = timedelta(minutes=10)
"""How long a scale is believed at least; at most twice as long (the original's spans)."""
DISCOVERY_LIFE: Final = timedelta(minutes=5)
"""How long it is believed which kinds there are (the original's span)."""
FAILURE_LIFE: Final = timedelta(seconds=30)
"""How long a question that failed is not asked again."""
UNUSED_LIFE: Final = timedelta(hours=1)
"""How long an answer is kept that nobody asks for (the original's span)."""


class Server(Protocol):
    """The one way to read that is needed here."""

    async def fetch(self, path: str) -> bytes:
        """What the path shows."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Whether there is such a workload, and how it looks, could not be found out."""

    problem: ClusterError | DecodeError


class _Scalable(NamedTuple):
    """One object of a group."""

    group: str
    name: WorkloadName


@dataclass(slots=True)
class _Kept(Generic[ValueT]):
    value: ValueT
    fresh_until: datetime
    asked_at: datetime


class _Answers(Generic[KeyT, ValueT]):
    """Answers by question, each with its time to be asked anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[KeyT, _Kept[ValueT]] = {}
        self._swept_at = clock.now()

    def fresh(self, key: KeyT) -> _Kept[ValueT] | None:
        """The answer, unless it is time to ask anew."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        kept.asked_at = self._clock.now()
        return kept if kept.asked_at < kept.fresh_until else None

    def stale(self, key: KeyT, default: ValueT) -> ValueT:
        """The answer, however old."""
        kept = self._kept.get(key)
        return default if kept is None else kept.value

    def keep(self, key: KeyT, value: ValueT, life: timedelta) -> ValueT:
        """The answer itself, which is also kept."""
        now = self._clock.now()
        self._kept[key] = _Kept(value, now + life, now)
        if now - self._swept_at > UNUSED_LIFE:
            self._swept_at = now
            self._kept = {
                key: kept for key, kept in self._kept.items() if now - kept.asked_at < UNUSED_LIFE
            }
        return value


class Scales:
    """Asks for scales, and remembers the answers."""

    def __init__(self, server: Server, *, clock: Clock, random: Random) -> None:
        self._server = server
        self._random = random
        self._workloads: _Answers[_Scalable, Workload | Unknown | None] = _Answers(clock)
        self._versions: _Answers[str, tuple[str, ...]] = _Answers(clock)
        self._scalable: _Answers[str, Mapping[str, tuple[str, ...]]] = _Answers(clock)
        self._rights = MissingRights()

    def refusals(self) -> Mapping[str, ForbiddenError]:
        """Which rights were missing last time, by the kind that was asked for."""
        return self._rights.refusals()

    async def workload(self, name: WorkloadName, api_version: str) -> Workload | Unknown | None:
        """The workload as its scale shows it; None if there is none, or it cannot be scaled."""
        key = _Scalable(api_version.rpartition("/")[0], name)
        kept = self._workloads.fresh(key)
        if kept is not None:
            return kept.value
        try:
            workload = await self._ask(key.group, name)
        except (ClusterError, DecodeError) as error:
            known = self._workloads.stale(key, None) or Unknown(error)
            return self._workloads.keep(key, known, FAILURE_LIFE)
        # Not all at once, after they were all asked for at once.
        return self._workloads.keep(key, workload, SCALE_LIFE * self._random.uniform(1, 2))

    async def _ask(self, group: str, name: WorkloadName) -> Workload | None:
        for version in await self._fetch_versions(group):
            api_version = f"{group}/{version}".removeprefix("/")
            for resource in (await self._fetch_scalable(api_version)).get(name.kind, ()):
                place = paths.collection(api_version, resource, name.namespace)
                with self._rights.noted(f"{api_version}/{resource}/scale"):
                    data = await self._fetch_scale(paths.item(place, name.name, "scale"))
                if data is not None:
                    return decode_scale(name.kind, data)
        return None

    async def _fetch_scale(self, path: str) -> bytes | None:
        try:
            return await self._server.fetch(path)
        except NotFoundError:
            return None

    async def _fetch_versions(self, group: str) -> tuple[str, ...]:
        if not group:
            return ("v1",)
        kept = self._versions.fresh(group)
        if kept is not None:
            return kept.value
        try:
            versions = decode_versions(await self._server.fetch(paths.item("/apis", group)))
        except NotFoundError:
            versions = ()
        return self._versions.keep(group, versions, DISCOVERY_LIFE)

    async def _fetch_scalable(self, api_version: str) -> Mapping[str, tuple[str, ...]]:
        kept = self._scalable.fresh(api_version)
        if kept is not None:
            return kept.value
        group, _, version = api_version.rpartition("/")
        root = paths.item("/apis", group) if group else "/api"
        scalable = decode_scalable(await self._server.fetch(paths.item(root, version)))
        return self._scalable.keep(api_version, scalable, DISCOVERY_LIFE)
