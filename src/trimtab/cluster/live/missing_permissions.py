"""Rights that turned out to be missing, until the act that needs them succeeds (F43).

A feed keeps the error that stops its reads. An act is over when it has failed; without a record
of it a process that may not evict would look healthy for ever.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType

from trimtab.cluster.errors import ForbiddenError


class MissingRights:
    """The last refusal of each act because of a missing right."""

    def __init__(self) -> None:
        self._refusals: dict[str, ForbiddenError] = {}

    def noted(self, act: str) -> AbstractContextManager[None]:
        """Remember whether the act in the block lacks a right; its error goes on."""
        return _Noted(act, self._refusals)

    def refusals(self) -> Mapping[str, ForbiddenError]:
        """Return the refusals that still stand, by act."""
        return dict(self._refusals)


@dataclass(slots=True)
class _Noted(AbstractContextManager[None]):
    """A context manager around each request, since a generator would be slower."""

    act: str
    refusals: dict[str, ForbiddenError]

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.refusals.pop(self.act, None)
        # A full quota or a policy forbids things too, but no role would help.
        elif isinstance(error, ForbiddenError) and error.right is not None:
            self.refusals[self.act] = error
