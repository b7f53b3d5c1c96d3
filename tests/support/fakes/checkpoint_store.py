"""A store of checkpoints as tests fill it."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.wire.lists import Unreadable


class Checkpoints:
    """A store with a few checkpoints in it."""

    def __init__(self, *stored: Checkpoint) -> None:
        self.stored = stored

    def __iter__(self) -> Iterator[Checkpoint]:
        return iter(self.stored)

    def find(self, namespace: str, name: str) -> Checkpoint | None:
        found = (c for c in self.stored if (c.namespace, c.written_name) == (namespace, name))
        return next(found, None)

    def age(self) -> timedelta | None:
        return None

    async def changes(self) -> AsyncIterator[Checkpoint]:
        for each in self.stored:
            yield each

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        return ()
