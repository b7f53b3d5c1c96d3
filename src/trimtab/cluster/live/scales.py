"""Workloads of kinds that are not built in: found by discovery, read through their scale.

Answers are cached: the scale, its absence, or the failure of the request. A known answer stays
valid while the server cannot be reached. `peek` answers from memory alone; `workload` asks the
server where the answer is due.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from trimtab.api.kinds import discovery, workloads
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.errors import ClusterError, ForbiddenError, NotFoundError
from trimtab.cluster.http import paths
from trimtab.cluster.http.api_server import ApiServer
from trimtab.cluster.live.missing_permissions import MissingRights
from trimtab.cluster.ports import Clock
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.workloads import Workload

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

SCALE_LIFE: Final = timedelta(minutes=10)
"""Minimum time for which a scale is cached; the maximum is twice as long (the original's spans)."""
DISCOVERY_LIFE: Final = timedelta(minutes=5)
"""Time for which the list of kinds is cached (the original's span)."""
FAILURE_LIFE: Final = timedelta(seconds=30)
"""Time until a failed request is repeated."""
ABSENT_LIFE: Final = timedelta(seconds=15)
"""Time for which a missing object or kind, or an empty selector, stays cached."""
UNUSED_LIFE: Final = timedelta(hours=1)
"""Time after which an unused answer is dropped (the original's span)."""
REREAD_AFTER: Final = timedelta(milliseconds=100)
"""Delay before a new object that selects no pods yet is read again."""
REDISCOVERED_AFTER: Final = timedelta(seconds=1)
"""Delay before kinds are listed again, if an owner's kind is missing from the list."""
SETTLES_WITHIN: Final = timedelta(seconds=30)
"""Time that the controller of a new object may take to write its selector."""

_MAX_WORKLOADS: Final = 16_384
_MAX_GROUPS: Final = 1024
_MAX_SCALE_BYTES: Final = 8 * 1024
"""A scale has a name, two numbers and a selector. Tenants choose the text of the selector."""
_MAX_NAME: Final = 253
_MAX_KIND: Final = 63
_MAX_API_VERSION: Final = _MAX_NAME + 1 + _MAX_KIND


@dataclass(frozen=True, slots=True)
class Unknown:
    """The server could not be asked for the workload, or its answer could not be read."""

    problem: ClusterError | DecodeError


class Missing(StrEnum):
    """Reasons why there is no scale to read."""

    OBJECT = "not found"
    """No such object, or no such kind: both may be created at any moment."""
    SCALE = "cannot be scaled"
    """The kind is there and has no scale."""


Answer: TypeAlias = Workload | Unknown | Missing


@dataclass(frozen=True, slots=True)
class CachedScale:
    """The last answer about a workload."""

    answer: Answer
    is_fresh: bool
    """False if it is time to ask again."""
    is_settling: bool = False
    """True if the object is new and selects no pods yet."""


class _Scalable(NamedTuple):
    """One object of a group."""

    group: str
    name: WorkloadName


@dataclass(slots=True)
class _Kept(Generic[ValueT]):
    value: ValueT
    fresh_until: datetime
    asked_at: datetime
    kept_at: datetime
    confirmed_for: str = ""
    """The uid of the owner reference that was asked about, and that the answer contradicts."""


class _Answers(Generic[KeyT, ValueT]):
    """Answers by question, each with its time to be renewed; the least recently used ones go."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._kept: OrderedDict[KeyT, _Kept[ValueT]] = OrderedDict()
        self._swept_at = clock.now()

    def find(self, key: KeyT) -> _Kept[ValueT] | None:
        """Return the answer, however old; it counts as used."""
        kept = self._kept.get(key)
        if kept is not None:
            kept.asked_at = self._clock.now()
            self._kept.move_to_end(key)
        return kept

    def fresh(self, key: KeyT) -> _Kept[ValueT] | None:
        """Return the answer, unless it is time to ask again."""
        kept = self.find(key)
        return kept if kept is not None and kept.asked_at < kept.fresh_until else None

    def keep(self, key: KeyT, value: ValueT, life: timedelta, confirmed_for: str = "") -> ValueT:
        """Store the answer and return it."""
        now = self._clock.now()
        self._kept[key] = _Kept(value, now + life, now, now, confirmed_for)
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        if now - self._swept_at > UNUSED_LIFE:
            self._swept_at = now
            for old in [key for key, kept in self._kept.items() if _is_unused(kept, now)]:
                del self._kept[old]
        return value


def _is_unused(kept: _Kept[ValueT], now: datetime) -> bool:
    return now - kept.asked_at >= UNUSED_LIFE


class Scales:
    """Fetches scales, and caches the answers."""

    def __init__(self, server: ApiServer, *, clock: Clock, random: Random) -> None:
        self._server = server
        self._clock = clock
        self._random = random
        self._workloads: _Answers[_Scalable, Answer] = _Answers(clock, _MAX_WORKLOADS)
        self._unsettled: _Answers[_Scalable, str] = _Answers(clock, _MAX_GROUPS)
        """The uids of objects that selected no pods when they were first read."""
        self._versions: _Answers[str, tuple[str, ...]] = _Answers(clock, _MAX_GROUPS)
        self._scalable: _Answers[str, Mapping[str, tuple[str, ...]]] = _Answers(clock, _MAX_GROUPS)
        self._rights = MissingRights()

    def refusals(self) -> Mapping[str, ForbiddenError]:
        """Return the rights that were missing last time, by the kind that was asked for."""
        return self._rights.refusals()

    def peek(self, name: WorkloadName, api_version: str, uid: str = "") -> CachedScale | None:
        """Return the last answer, however old, without a request; None if there is none.

        An answer that contradicts the uid of an owner reference is due. It is not if it was asked
        for because of that reference, which names an object that was created before.
        """
        # Nothing of the kind can exist, so no request: tenants write owner references freely.
        if not _is_possible(name, api_version, uid):
            return CachedScale(Missing.SCALE, is_fresh=True)
        key = _key(name, api_version)
        kept = self._workloads.find(key)
        if kept is None:
            return None
        now, answer = self._clock.now(), kept.value
        is_settling = self._is_settling(key, answer, now)
        is_fresh = now < kept.fresh_until
        if is_settling:
            is_fresh = is_fresh and now < kept.kept_at + REREAD_AFTER
        if _contradicts(answer, uid):
            is_confirmed = kept.confirmed_for == uid and now < kept.kept_at + ABSENT_LIFE
            is_fresh = is_fresh and is_confirmed
        return CachedScale(answer, is_fresh, is_settling)

    async def workload(
        self, name: WorkloadName, api_version: str, uid: str = ""
    ) -> Workload | Unknown | None:
        """Return the workload as its scale shows it; None if there is none, or it has no scale."""
        found = self.peek(name, api_version, uid)
        answer = found.answer if found is not None and found.is_fresh else None
        if answer is None:
            answer = await self._renew(_key(name, api_version), uid)
        return None if isinstance(answer, Missing) else answer

    async def _renew(self, key: _Scalable, uid: str) -> Answer:
        absent_life = REDISCOVERED_AFTER if uid else ABSENT_LIFE
        try:
            answer = await self._ask(key.group, key.name, absent_life)
        except (ClusterError, DecodeError) as error:
            kept = self._workloads.find(key)
            if kept is not None and (
                isinstance(kept.value, Workload) or kept.value is Missing.SCALE
            ):
                # An old answer is better than none: a server that is down for a minute changes no
                # owner.
                return self._workloads.keep(key, kept.value, FAILURE_LIFE, uid)
            # Without its traceback, which would keep the whole request in memory.
            return self._workloads.keep(key, Unknown(error.with_traceback(None)), FAILURE_LIFE)
        confirmed_for = uid if _contradicts(answer, uid) else ""
        return self._workloads.keep(key, answer, self._life(key, answer), confirmed_for)

    def _life(self, key: _Scalable, answer: Answer) -> timedelta:
        if answer is Missing.SCALE:
            return DISCOVERY_LIFE
        if not isinstance(answer, Workload):
            return ABSENT_LIFE
        if answer.selector is None:
            first = self._unsettled.find(key)
            if first is None or first.value != answer.uid:
                self._unsettled.keep(key, answer.uid, SETTLES_WITHIN)
            return ABSENT_LIFE
        # Random, so that answers that came together are not due together.
        return SCALE_LIFE * self._random.uniform(1, 2)

    def _is_settling(self, key: _Scalable, answer: Answer, now: datetime) -> bool:
        if not isinstance(answer, Workload) or answer.selector is not None:
            return False
        first = self._unsettled.find(key)
        return first is not None and first.value == answer.uid and now < first.fresh_until

    async def _ask(
        self, group: str, name: WorkloadName, absent_life: timedelta
    ) -> Workload | Missing:
        why = Missing.OBJECT
        # All versions: a reference may name one that is no longer served.
        for version in await self._fetch_versions(group, absent_life):
            api_version = f"{group}/{version}".removeprefix("/")
            scalable = await self._fetch_scalable(api_version, name.kind, absent_life)
            if name.kind in scalable and not scalable[name.kind]:
                why = Missing.SCALE
            for resource in scalable.get(name.kind, ()):
                place = paths.collection(api_version, resource, name.namespace)
                with self._rights.noted(f"{api_version}/{resource}/scale"):
                    data = await self._fetch_scale(paths.item(place, name.name, "scale"))
                if data is not None:
                    return workloads.decode_scale(name.kind, data)
                why = Missing.OBJECT
        return why

    async def _fetch_scale(self, path: str) -> bytes | None:
        try:
            data = await self._server.fetch(path)
        except NotFoundError:
            return None
        if len(data) > _MAX_SCALE_BYTES:
            flaw = f"a scale of {len(data)} bytes; at most {_MAX_SCALE_BYTES} are read"
            raise DecodeError(path, flaw)
        return data

    async def _fetch_versions(self, group: str, absent_life: timedelta) -> tuple[str, ...]:
        if not group:
            return ("v1",)
        kept = self._versions.fresh(group)
        if kept is not None and (kept.value or kept.asked_at < kept.kept_at + absent_life):
            return kept.value
        try:
            versions = discovery.decode_versions(
                await self._server.fetch(paths.item("/apis", group))
            )
        except NotFoundError:
            versions = ()
        return self._versions.keep(group, versions, DISCOVERY_LIFE)

    async def _fetch_scalable(
        self, api_version: str, kind: str, absent_life: timedelta
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the scalable resources of each kind; read again soon for a missing kind."""
        kept = self._scalable.fresh(api_version)
        if kept is not None and (kind in kept.value or kept.asked_at < kept.kept_at + absent_life):
            return kept.value
        group, _, version = api_version.rpartition("/")
        root = paths.item("/apis", group) if group else "/api"
        scalable = discovery.decode_scalable(await self._server.fetch(paths.item(root, version)))
        return self._scalable.keep(api_version, scalable, DISCOVERY_LIFE)


def _key(name: WorkloadName, api_version: str) -> _Scalable:
    # By group, not version: all versions of a group show the same objects.
    return _Scalable(api_version.rpartition("/")[0], name)


def _contradicts(answer: Answer, uid: str) -> bool:
    """Return True if the answer lacks the object with that uid, which owns something."""
    if not uid:
        return False
    if isinstance(answer, Workload):
        return bool(answer.uid) and answer.uid != uid
    return answer is Missing.OBJECT


def _is_possible(name: WorkloadName, api_version: str, uid: str) -> bool:
    """Return True if an object can have that name; owner references hold text of any length."""
    return (
        len(name.name) <= _MAX_NAME
        and len(name.kind) <= _MAX_KIND
        and len(api_version) <= _MAX_API_VERSION
        and len(uid) <= _MAX_NAME
    )
