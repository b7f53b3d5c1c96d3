"""What a server can do, asked for now and then."""

import asyncio
import json
from collections.abc import Mapping
from datetime import timedelta

import pytest
from support.fakes.clocks import LoopClock, run_virtually
from support.fakes.silent_server import SilentServer

from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ApiError
from trimtab.cluster.live.capabilities import Abilities


class Server(SilentServer):
    """A server that has these resources, or does not answer."""

    def __init__(self, *names: str) -> None:
        self.names: tuple[str, ...] | None = names
        self.requests = 0

    async def fetch(self, path: str, parameters: Mapping[str, str] | None = None) -> bytes:
        assert parameters is None
        assert path == "/api/v1"
        self.requests += 1
        if self.names is None:
            raise ApiError("GET /api/v1", Status(code=500))
        return json.dumps({"resources": [{"name": name} for name in self.names]}).encode()


@pytest.mark.parametrize(
    ("names", "can"), [(("pods", "pods/resize"), True), (("pods", "pods/status"), False)]
)
def test_a_server_can_resize_if_it_says_so_and_is_asked_once_for_a_while(
    names: tuple[str, ...], *, can: bool
) -> None:
    async def scene() -> None:
        server = Server(*names)
        abilities = Abilities(server, LoopClock())
        answers = [await abilities.can_resize() for _ in range(3)]

        assert answers == [can] * 3
        assert server.requests == 1

    run_virtually(scene())


def test_a_server_that_is_upgraded_is_believed_after_a_while() -> None:
    async def scene() -> None:
        server = Server("pods")
        abilities = Abilities(server, LoopClock())
        before = await abilities.can_resize()
        server.names = ("pods/resize",)
        await asyncio.sleep(timedelta(minutes=10).total_seconds())

        assert (before, await abilities.can_resize()) == (False, True)

    run_virtually(scene())


def test_without_an_answer_what_was_known_stands_and_at_first_it_can() -> None:
    async def scene() -> None:
        server = Server()
        server.names = None
        abilities = Abilities(server, LoopClock())
        unknown = await abilities.can_resize()
        server.names = ()
        await asyncio.sleep(30)
        known = await abilities.can_resize()
        server.names = None
        await asyncio.sleep(600)

        assert (unknown, known, await abilities.can_resize()) == (True, False, False)

    run_virtually(scene())
