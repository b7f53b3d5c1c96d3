"""Access to metrics and pages: a caller's token, the decision about it, and its lifetime.

The API server knows callers and their rights (TokenReview and SubjectAccessReview, as
controller-runtime's `WithAuthenticationAndAuthorization` uses them). Other modules send the
reviews.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

AUTHORIZATION: Final = "authorization"
PAGES_TOKEN: Final = "trimtab-token"  # noqa: S105 - the name of a header
"""The header of tokens that are good for pages only, in lower case.

The API server takes `Authorization` off every request that it passes on to a pod. A token in its
place must be worthless elsewhere: any pod can claim to be a component.
"""
PAGES_AUDIENCE: Final = "trimtab"
"""The audience of such tokens: no API server accepts them."""
PAGES_ACCOUNT: Final = "trimtab-pages"
"""The ServiceAccount of such tokens, in the namespace of the components."""

_BEARER: Final = "bearer"
_MAX_NAME: Final = 128
"""Longest part of a caller's name that is kept and shown."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as a caller presents it."""

    text: str = field(repr=False)
    is_for_pages: bool = False
    """True if its audience must be ours."""

    def digest(self, path: str) -> bytes:
        """Return the key under which a decision about this token and a path is kept."""
        parts = (str(self.is_for_pages), path, self.text)
        return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).digest()


@dataclass(frozen=True, slots=True)
class Caller:
    """A user as the API server describes the owner of a token."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Access(StrEnum):
    """The answer to a caller."""

    GRANTED = "Granted"
    UNKNOWN = "Unknown"
    """No token, or one that the API server does not accept."""
    FORBIDDEN = "Forbidden"
    UNDECIDED = "Undecided"
    """The API server gave no answer."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about a caller, with the details for its explanation."""

    access: Access
    detail: str = ""
    """The caller's name, or the reason why there is no decision."""

    def explain(self, path: str) -> str:
        """Return the sentence for the caller."""
        match self.access:
            case Access.GRANTED:
                return f"{self.detail} may get {path}"
            case Access.UNKNOWN:
                return (
                    f"{path} needs a token that the API server accepts, as Authorization: Bearer;"
                    " see docs/security.md#metrics-and-pages"
                )
            case Access.FORBIDDEN:
                return (
                    f"{self.detail} may not get {path}: bind a ClusterRole with this"
                    " nonResourceURL and the verb get, such as trimtab-metrics-reader"
                )
            case Access.UNDECIDED:
                return f"{path} is closed while rights cannot be checked: {self.detail}"


def find_token(headers: Mapping[str, str]) -> Token | None:
    """Return the token in the headers, which are named in lower case."""
    scheme, _, text = headers.get(AUTHORIZATION, "").strip().partition(" ")
    if scheme.lower() == _BEARER and text.strip():
        return Token(text.strip())
    narrow = headers.get(PAGES_TOKEN, "").strip()
    return Token(narrow, is_for_pages=True) if narrow else None


def decide(caller: Caller | None, *, is_allowed: bool | None) -> Decision:
    """Return the decision about a caller; None stands for one that the API server does not know."""
    if caller is None:
        return Decision(Access.UNKNOWN)
    access = Access.GRANTED if is_allowed else Access.FORBIDDEN
    return Decision(access, caller.name[:_MAX_NAME])


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """Number and lifetime of the decisions that are kept."""

    entries: int = 256
    """Maximum number of granted decisions, and of refused ones."""
    granted: timedelta = timedelta(minutes=1)
    refused: timedelta = timedelta(seconds=10)


USUAL_CACHE: Final = CacheSettings()


class DecisionCache:
    """Decisions of the last minute, by digest.

    Refused ones have a table of their own: a caller with a thousand bad tokens cannot push out
    the decision about a good one.
    """

    def __init__(self, settings: CacheSettings = USUAL_CACHE) -> None:
        self._settings = settings
        self._granted: dict[bytes, tuple[timedelta, Decision]] = {}
        self._refused: dict[bytes, tuple[timedelta, Decision]] = {}

    def __len__(self) -> int:
        return len(self._granted) + len(self._refused)

    def find(self, digest: bytes, now: timedelta) -> Decision | None:
        """Return the decision if it still holds; `now` is on a clock that never goes back."""
        for table in (self._granted, self._refused):
            ends_at, decision = table.get(digest, (now, None))
            if ends_at > now:
                return decision
        return None

    def keep(self, digest: bytes, decision: Decision, now: timedelta) -> None:
        """Keep a decision for its time, in the place of the oldest where there are too many."""
        settings = self._settings
        self._granted.pop(digest, None)
        self._refused.pop(digest, None)
        match decision.access:
            case Access.UNDECIDED:
                return
            case Access.GRANTED:
                table, life = self._granted, settings.granted
            case Access.UNKNOWN | Access.FORBIDDEN:
                table, life = self._refused, settings.refused
        if len(table) >= settings.entries:
            del table[next(iter(table))]
        table[digest] = (now + life, decision)
