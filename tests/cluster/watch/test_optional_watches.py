"""Feeds that begin once the server says that they may."""

import asyncio
import json
from typing import NoReturn

import pytest
from support.fakes.clocks import LoopClock, run_virtually
from support.fakes.silent_server import SilentServer

from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ApiError, ForbiddenError
from trimtab.cluster.watch.optional_watches import ASK_AGAIN, ASK_AT_FIRST, PermittedFeed


class Server(SilentServer):
    """A server that answers whether we may; nothing but an error if it does not know."""

    def __init__(self, *, allows: bool | None) -> None:
        self.allows = allows
        self.questions: list[object] = []

    async def post(self, path: str, body: bytes) -> bytes:
        assert path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        asked = json.loads(body)["spec"]["resourceAttributes"]
        self.questions.append({name: value for name, value in asked.items() if value})
        if self.allows is None:
            raise ApiError(f"POST {path}", Status(code=500))
        return json.dumps({"status": {"allowed": self.allows}}).encode()


class Watch:
    """A feed that is seen to begin."""

    path = "/api/v1/nodes"

    def __init__(self) -> None:
        self.begins = 0
        self.problem: Exception | None = None

    async def run(self) -> NoReturn:
        self.begins += 1
        await asyncio.Event().wait()
        raise AssertionError


async def play(server: Server, feed: PermittedFeed, *, gives: bool = False) -> None:
    """Let the feed run for a while, in which the right may be given."""
    running = asyncio.create_task(feed.run())
    await asyncio.sleep(ASK_AGAIN.total_seconds() / 2)
    if gives:
        server.allows = True
    await asyncio.sleep(2 * ASK_AGAIN.total_seconds())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("allows", "begins"),
    [
        pytest.param(True, 1, id="it may"),
        pytest.param(False, 0, id="it may not"),
        pytest.param(None, 1, id="nobody says no"),
    ],
)
def test_a_feed_begins_unless_it_may_not(*, allows: bool | None, begins: int) -> None:
    async def scene() -> None:
        server, watch = Server(allows=allows), Watch()
        await play(server, PermittedFeed(server, watch, "nodes", clock=LoopClock()))

        assert watch.begins == begins
        assert server.questions[0] == {"verb": "list", "resource": "nodes"}

    run_virtually(scene())


def test_the_right_that_is_missing_is_named_until_it_is_given() -> None:
    async def scene() -> None:
        server, watch = Server(allows=False), Watch()
        feed = PermittedFeed(server, watch, "nodes", clock=LoopClock())
        await play(server, feed)
        told = feed.problem
        await play(server, feed, gives=True)

        assert isinstance(told, ForbiddenError)
        assert str(told.right) == "list nodes"
        assert feed.problem is None
        assert watch.begins == 1

    run_virtually(scene())


def test_a_right_that_is_known_a_moment_late_is_used_at_once() -> None:
    async def scene() -> None:
        server, watch = Server(allows=False), Watch()
        feed = PermittedFeed(server, watch, "nodes", clock=LoopClock())
        running = asyncio.create_task(feed.run())
        await asyncio.sleep(ASK_AT_FIRST.total_seconds() / 2)
        server.allows = True
        await asyncio.sleep(ASK_AT_FIRST.total_seconds())
        begins = watch.begins
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

        assert begins == 1

    run_virtually(scene())


def test_who_may_not_asks_once_a_minute_in_the_end() -> None:
    async def scene() -> None:
        server, clock = Server(allows=False), LoopClock()
        feed = PermittedFeed(server, Watch(), "nodes", clock=clock)
        running = asyncio.create_task(feed.run())
        await asyncio.sleep(60 * ASK_AGAIN.total_seconds())
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

        assert 60 <= len(server.questions) <= 66

    run_virtually(scene())


def test_a_feed_that_has_begun_tells_of_its_own_problems() -> None:
    async def scene() -> None:
        server, watch = Server(allows=True), Watch()
        feed = PermittedFeed(server, watch, "nodes", clock=LoopClock())
        await play(server, feed)
        watch.problem = ApiError("GET /api/v1/nodes", Status(code=500))

        assert feed.problem is watch.problem

    run_virtually(scene())
