"""Feeds of what is good to know, begun once the server says that we may read it.

Who may not, as in an installation for one namespace, never asks for it: a request that is refused
again and again looks like an attack to those who read the server's audit log.
"""

from datetime import timedelta
from typing import Final, NoReturn, Protocol

from trimtab.api.kinds import access_reviews
from trimtab.api.kinds.access_reviews import Question
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster import errors
from trimtab.cluster.errors import ClusterError, ForbiddenError
from trimtab.cluster.http import paths
from trimtab.cluster.ports import Clock

ASK_AGAIN: Final = timedelta(minutes=1)
"""After so long a right may have been given."""
ASK_AT_FIRST: Final = timedelta(seconds=1)
"""So long, and then longer each time, in the beginning: a server that has just started, or roles
that are made with us, may not be known yet, and who acts meanwhile sees less than it may."""
_REVIEWS: Final = paths.collection("authorization.k8s.io/v1", "selfsubjectaccessreviews")


class AccessReviewer(Protocol):
    """The one way to ask that is needed here."""

    async def post(self, path: str, body: bytes) -> bytes:
        """What the server answers."""


class Fed(Protocol):
    """A feed of whatever kind."""

    path: str

    @property
    def problem(self) -> Exception | None:
        """What keeps the store from getting newer."""

    async def run(self) -> NoReturn:
        """Feed the store until cancelled."""


class PermittedFeed:
    """A feed that begins when it may: of all there is, or of one namespace."""

    def __init__(
        self,
        server: AccessReviewer,
        feed: Fed,
        resource: str,
        *,
        clock: Clock,
        group: str = "",
        namespace: str = "",
    ) -> None:
        self._server = server
        self._feed = feed
        self._resource = resource
        self._clock = clock
        self._where = {"group": group, "namespace": namespace}
        self._refusal: ForbiddenError | None = None
        self.path = feed.path

    @property
    def problem(self) -> Exception | None:
        """What keeps the store from getting newer."""
        return self._refusal or self._feed.problem

    async def run(self) -> NoReturn:
        """Feed the store until cancelled, from when on that is allowed."""
        delay = ASK_AT_FIRST
        while not await self._may_list():
            self._refusal = errors.missing_right(
                f"GET {self.path}", "list", self._resource, **self._where
            )
            await self._clock.sleep(delay)
            delay = min(2 * delay, ASK_AGAIN)
        self._refusal = None
        await self._feed.run()

    async def _may_list(self) -> bool:
        question = access_reviews.encode_question(Question("list", self._resource, **self._where))
        try:
            answer = access_reviews.decode_answer(await self._server.post(_REVIEWS, question))
        except (ClusterError, DecodeError):
            # Nobody says no: the list itself shows what is the matter.
            return True
        return answer is not False
