"""Rights that turned out to be missing, until the act that needs them succeeds (F43).

Of views a feed knows what keeps it from reading; an act is over when it has failed, and without a
note of it a process that may not evict would look well for ever.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from trimtab.cluster.errors import ForbiddenError


class MissingRights:
    """The last refusal of each act for want of a right."""

    def __init__(self) -> None:
        self._refusals: dict[str, ForbiddenError] = {}

    @contextmanager
    def noted(self, act: str) -> Iterator[None]:
        """Remember whether the act in the block lacks a right; its error goes on."""
        try:
            yield
        except ForbiddenError as error:
            # A full quota or a policy forbids things too, but no role would help.
            if error.right is not None:
                self._refusals[act] = error
            raise
        self._refusals.pop(act, None)

    def refusals(self) -> Mapping[str, ForbiddenError]:
        """The refusals that still stand, by act."""
        return dict(self._refusals)
