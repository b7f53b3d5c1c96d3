"""A store of one object, fed by looking at it now and then."""

import asyncio
import json
from collections.abc import Mapping

from support.fakes.clocks import LoopClock, run_virtually
from support.fakes.silent_server import SilentServer

from trimtab.api.kinds.nodes import decode_namespace
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ApiError, ForbiddenError, NotFoundError
from trimtab.cluster.watch.poll import LOOK_AGAIN, Poll
from trimtab.cluster.watch.store import Reader, Writer, open_store
from trimtab.core.model.pods import PAUSED
from trimtab.core.model.workloads import Namespace

PATH = "/api/v1/namespaces/shop"
FORBIDDEN = ForbiddenError(f"GET {PATH}", Status(code=403))
GONE = NotFoundError(f"GET {PATH}", Status(code=404))


def shown(paused: str) -> bytes:
    metadata = {"name": "shop", "annotations": {PAUSED: paused}}
    return json.dumps({"metadata": metadata}).encode()


class Server(SilentServer):
    """A server that gives one answer after the other, the last one for ever."""

    def __init__(self, *answers: bytes | ApiError) -> None:
        self.answers = list(answers)

    async def fetch(self, path: str, parameters: Mapping[str, str] | None = None) -> bytes:
        assert parameters is None
        assert path == PATH
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ApiError):
            raise answer
        return answer


Look = tuple[list[str], bool]
"""How the namespace was paused, if there was one, and whether something was in the way."""


async def watch(*answers: bytes | ApiError) -> tuple[list[Look], Reader[Namespace]]:
    """What is seen after each answer."""
    clock = LoopClock()
    writer: Writer[Namespace]
    writer, reader = open_store(clock)
    poll = Poll(Server(*answers), PATH, decode_namespace, writer, clock=clock)
    running = asyncio.create_task(poll.run())
    looks = []
    for _ in answers:
        await asyncio.sleep(LOOK_AGAIN.total_seconds() / 2)
        looks.append(([each.annotations[PAUSED] for each in reader], poll.problem is not None))
        await asyncio.sleep(LOOK_AGAIN.total_seconds() / 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return looks, reader


def test_what_the_object_says_is_seen_at_the_next_look() -> None:
    looks, _ = run_virtually(watch(shown("false"), shown("true")))

    assert looks == [(["false"], False), (["true"], False)]


def test_what_was_seen_stays_while_nothing_can_be_seen() -> None:
    looks, _ = run_virtually(watch(shown("true"), FORBIDDEN, b"[]", shown("false")))

    assert looks == [(["true"], False), (["true"], True), (["true"], True), (["false"], False)]


def test_an_object_that_is_gone_is_seen_no_longer() -> None:
    looks, _ = run_virtually(watch(shown("true"), GONE))

    assert looks == [(["true"], False), ([], False)]


def test_there_is_no_view_before_the_first_answer() -> None:
    looks, reader = run_virtually(watch(FORBIDDEN, FORBIDDEN))

    assert looks == [([], True), ([], True)]
    assert reader.age() is None
