"""Feeds of optional objects, which begin once the server says that we may read them.

A component without the right, as in an installation for one namespace, never sends the request.
Repeated refusals look like an attack in the server's audit log.
"""

from datetime import timedelta
from typing import Final, NoReturn, Protocol

from trimtab.api.kinds import access_reviews
from trimtab.api.kinds.access_reviews import Question
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster import errors
from trimtab.cluster.errors import ClusterError, ForbiddenError
from trimtab.cluster.http import paths
from trimtab.cluster.http.api_server import ApiServer
from trimtab.cluster.ports import Clock

ASK_AGAIN: Final = timedelta(minutes=1)
"""Interval of the question, since a right may have been granted meanwhile."""
ASK_AT_FIRST: Final = timedelta(seconds=1)
"""First delay of the question, which then doubles. A server that has just started may not know our
roles yet, and a component that acts meanwhile sees less than it may."""
_REVIEWS: Final = paths.collection("authorization.k8s.io/v1", "selfsubjectaccessreviews")


class Fed(Protocol):
    """A feed of any kind."""

    path: str

    @property
    def problem(self) -> Exception | None:
        """Error that keeps the store from getting newer."""

    async def run(self) -> NoReturn:
        """Feed the store until cancelled."""


class PermittedFeed:
    """A feed that begins once it is permitted: of all namespaces, or of one."""

    def __init__(
        self,
        server: ApiServer,
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
        """Error that keeps the store from getting newer."""
        return self._refusal or self._feed.problem

    async def run(self) -> NoReturn:
        """Feed the store until cancelled, from the moment that is permitted."""
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
            # Without a clear no, the list itself will show the problem.
            return True
        return answer is not False
