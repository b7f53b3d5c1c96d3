"""The client against a server on loopback that answers as each test wants it to."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

import pytest
import uvloop
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from support.fakes.clocks import StillClock
from support.makers.records import NOW
from support.servers.api_server import Asked, Unfinished, a_client, in_turn, ok, refused, serving

from trimtab import __version__
from trimtab.cluster.auth.credentials import FixedCredentials, Identity, with_token
from trimtab.cluster.errors import (
    ApiError,
    BudgetError,
    ConflictError,
    GoneError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import MERGE_PATCH, Client, ClientSettings, LineError, split_lines
from trimtab.cluster.http.retries import RetrySettings, plan_retry

SHORT = timedelta(milliseconds=50)


@dataclass
class TwoTokens:
    """Credentials with an old token, and a fresh one for those who ask."""

    identity: Identity = field(default_factory=lambda: with_token(Identity(), "old"))
    refreshed: int = 0

    async def present(self) -> Identity:
        return self.identity

    async def refresh(self, refused: Identity) -> None:
        assert refused is self.identity
        self.refreshed += 1
        self.identity = with_token(Identity(), "fresh")


def only_fresh_tokens(asked: Asked) -> web.Response:
    is_fresh = asked.headers["Authorization"] == "Bearer fresh"
    return web.Response(text="welcome\n") if is_fresh else refused(401)


async def write(client: Client, method: str) -> bytes:
    match method:
        case "POST":
            return await client.post("/x", b"{}")
        case "PUT":
            return await client.put("/x", b"{}")
        case "PATCH":
            return await client.patch("/x", b"[]")
        case _:
            return await client.delete("/x")


WRITES = pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])


async def test_a_read_returns_the_bytes_and_tells_who_asks() -> None:
    async with serving(in_turn(ok({"kind": "PodList"}))) as server, a_client(server.url) as client:
        data = await client.fetch("/api/v1/pods", {"limit": "500", "labelSelector": "a=b,c!=d"})

    asked = server.asked[0]
    assert json.loads(data) == {"kind": "PodList"}
    assert (asked.method, asked.path) == ("GET", "/api/v1/pods")
    assert asked.query == {"limit": "500", "labelSelector": "a=b,c!=d"}
    assert asked.headers["User-Agent"] == f"trimtab/{__version__}"
    assert asked.headers["Accept-Encoding"] == "identity"
    assert asked.headers["Accept"] == "application/json"
    assert "Content-Type" not in asked.headers


async def test_every_write_sends_its_body_with_its_type() -> None:
    async with serving(lambda _: ok()) as server, a_client(server.url) as client:
        await client.post("/x", b"1")
        await client.put("/x", b"2")
        await client.patch("/x", b"3")
        await client.patch("/x", b"4", MERGE_PATCH)
        await client.delete("/x")

    told = [(a.method, a.body, a.headers.get("Content-Type", "")) for a in server.asked]
    assert told[:4] == [
        ("POST", b"1", "application/json"),
        ("PUT", b"2", "application/json"),
        ("PATCH", b"3", "application/json-patch+json"),
        ("PATCH", b"4", "application/merge-patch+json"),
    ]
    assert told[4][:2] == ("DELETE", b"")


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        pytest.param(refused(404, message="no pod"), NotFoundError, "no pod", id="not found"),
        pytest.param(refused(409), ConflictError, "no", id="conflict"),
        pytest.param(refused(410), GoneError, "no", id="gone"),
        pytest.param(
            web.Response(status=404, text="404 page not found"),
            NotFoundError,
            "404 page not found",
            id="plain text",
        ),
        pytest.param(web.Response(status=400), ApiError, "Bad Request", id="no body at all"),
        pytest.param(
            web.Response(status=400, text="[1]"), ApiError, r"\[1\]", id="JSON that is no Status"
        ),
        pytest.param(
            web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
            ApiError,
            "Found",
            id="a redirection is not followed",
        ),
    ],
)
async def test_a_refusal_is_raised_as_its_error(
    answer: web.Response, kind: type[ApiError], text: str
) -> None:
    async with serving(in_turn(answer)) as server, a_client(server.url) as client:
        with pytest.raises(kind, match=f"GET /x: .*{text}") as caught:
            await client.fetch("/x")

    assert caught.value.status.code == answer.status


async def test_the_code_of_http_counts_more_than_the_one_in_the_body() -> None:
    answer = web.Response(status=404, text='{"code": 409}')
    async with serving(in_turn(answer)) as server, a_client(server.url) as client:
        with pytest.raises(NotFoundError):
            await client.fetch("/x")


async def test_who_is_in_a_hurry_keeps_to_no_budget() -> None:
    clock = StillClock()
    async with (
        serving(lambda _: ok()) as server,
        a_client(server.url, clock=clock, rate=1) as client,
    ):
        await client.fetch("/api")
        await client.fetch("/api")
        in_time = clock.moment
        client.hurry()
        for _ in range(10):
            await client.fetch("/api")

    assert in_time > NOW
    assert clock.moment == in_time


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
async def test_a_read_is_repeated_until_the_server_has_recovered(code: int) -> None:
    clock = StillClock()
    answers = in_turn(refused(code), refused(code), ok({"kind": "Pod"}))
    async with serving(answers) as server, a_client(server.url, clock=clock) as client:
        data = await client.fetch("/x")

    assert json.loads(data) == {"kind": "Pod"}
    assert len(server.asked) == 3
    assert timedelta() < clock.moment - NOW < timedelta(seconds=1)


async def test_a_read_gives_up_after_a_few_attempts() -> None:
    async with serving(lambda _: refused(503)) as server, a_client(server.url) as client:
        with pytest.raises(ApiError):
            await client.fetch("/x")

    assert len(server.asked) == RetrySettings().attempts


@WRITES
async def test_a_write_is_not_repeated_when_the_server_may_have_acted(method: str) -> None:
    async with serving(lambda _: refused(503)) as server, a_client(server.url) as client:
        with pytest.raises(ApiError):
            await write(client, method)

    assert len(server.asked) == 1


@WRITES
async def test_a_write_whose_answer_is_cut_off_is_not_repeated(method: str) -> None:
    async with serving(lambda _: Unfinished()) as server, a_client(server.url) as client:
        with pytest.raises(UnreachableError) as caught:
            await write(client, method)

    assert len(server.asked) == 1
    assert caught.value.was_sent
    assert caught.value.__cause__ is not None


@WRITES
async def test_a_write_that_was_turned_away_waits_as_long_as_the_server_asks(method: str) -> None:
    clock = StillClock()
    answers = in_turn(refused(429, after_seconds=7), ok())
    async with serving(answers) as server, a_client(server.url, clock=clock) as client:
        await write(client, method)

    assert len(server.asked) == 2
    assert timedelta(seconds=7) <= clock.moment - NOW < timedelta(seconds=8)


async def test_a_server_that_asks_for_a_long_wait_is_left_to_the_caller() -> None:
    clock = StillClock()
    answers = in_turn(refused(429, after_seconds=3600))
    async with serving(answers) as server, a_client(server.url, clock=clock) as client:
        with pytest.raises(TooManyRequestsError) as caught:
            await client.fetch("/x")

    assert caught.value.status.retry_after == timedelta(hours=1)
    assert caught.value.retry_after == timedelta(seconds=30)
    assert clock.moment == NOW


async def test_a_disruption_budget_is_not_asked_again_and_again() -> None:
    answers = in_turn(refused(429, causes=["DisruptionBudget"], after_seconds=10))
    async with serving(answers) as server, a_client(server.url) as client:
        with pytest.raises(BudgetError):
            await client.post("/x", b"{}")

    assert len(server.asked) == 1


async def test_a_read_whose_answer_is_cut_off_is_repeated() -> None:
    answers = in_turn(Unfinished(b"{"), ok({"kind": "Pod"}))
    async with serving(answers) as server, a_client(server.url) as client:
        data = await client.fetch("/x")

    assert json.loads(data) == {"kind": "Pod"}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_a_server_that_refuses_connections_is_tried_again_for_any_request(
    method: str,
) -> None:
    with socket.socket() as taken:
        # Bound but not listening: whoever connects is refused.
        taken.bind(("127.0.0.1", 0))
        clock = StillClock()
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with a_client(url, clock=clock) as client:
            with pytest.raises(UnreachableError) as caught:
                await (client.fetch("/x") if method == "GET" else write(client, method))

    assert not caught.value.was_sent
    assert clock.moment > NOW + timedelta(milliseconds=500)


async def test_a_server_that_never_answers_is_unreachable_after_the_timeout() -> None:
    settings = ClientSettings(request_timeout=SHORT, retries=RetrySettings(attempts=1))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with a_client(url, settings=settings) as client:
            with pytest.raises(UnreachableError, match="no answer in time") as caught:
                await client.fetch("/x")

    assert caught.value.was_sent


@WRITES
async def test_a_token_that_is_refused_is_refreshed_once_even_for_a_write(method: str) -> None:
    credentials = TwoTokens()
    async with (
        serving(only_fresh_tokens) as server,
        a_client(server.url, credentials=credentials) as client,
    ):
        await write(client, method)
        await write(client, method)

    assert credentials.refreshed == 1
    assert len(server.asked) == 3


async def test_a_stream_too_is_opened_with_a_fresh_token() -> None:
    async with (
        serving(only_fresh_tokens) as server,
        a_client(server.url, credentials=TwoTokens()) as client,
    ):
        lines = [line async for line in await client.stream("/x", {})]

    assert lines == [b"welcome"]


async def test_a_fresh_token_that_is_refused_as_well_is_the_end() -> None:
    async with (
        serving(lambda _: refused(401)) as server,
        a_client(server.url, credentials=TwoTokens()) as client,
    ):
        with pytest.raises(UnauthorizedError):
            await client.fetch("/x")

    assert len(server.asked) == 2


async def test_credentials_that_never_change_are_not_tried_twice() -> None:
    credentials = FixedCredentials(with_token(Identity(), "only"))
    async with (
        serving(lambda _: refused(401)) as server,
        a_client(server.url, credentials=credentials) as client,
    ):
        with pytest.raises(UnauthorizedError):
            await client.fetch("/x")

    assert len(server.asked) == 1


async def test_requests_wait_for_the_budget_unless_they_are_urgent() -> None:
    clock = StillClock()
    async with (
        serving(lambda _: ok()) as server,
        a_client(server.url, clock=clock, rate=1) as client,
    ):
        await client.fetch("/x")
        await client.fetch("/x", is_urgent=True)
        urgent_at = clock.moment
        await client.fetch("/x")

    assert urgent_at == NOW
    assert clock.moment == NOW + timedelta(seconds=2)


async def test_a_stream_yields_each_line_and_ends_with_the_answer() -> None:
    answer = web.Response(text='{"type":"ADDED"}\n\n{"type":"BOOKMARK"}\n')
    async with serving(in_turn(answer)) as server, a_client(server.url) as client:
        lines = [line async for line in await client.stream("/x", {"watch": "true"})]

    assert lines == [b'{"type":"ADDED"}', b'{"type":"BOOKMARK"}']
    assert server.asked[0].query == {"watch": "true"}


def test_the_client_works_the_same_on_the_fast_event_loop() -> None:
    async def talk() -> tuple[bytes, list[bytes]]:
        answers = in_turn(refused(503), web.Response(text="{}"), web.Response(text="a\nb\n"))
        async with serving(answers) as server, a_client(server.url) as client:
            document = await client.fetch("/x")
            return document, [line async for line in await client.stream("/x", {})]

    assert uvloop.run(talk()) == (b"{}", [b"a", b"b"])


async def test_a_stream_that_the_server_refuses_is_never_opened() -> None:
    async with serving(in_turn(refused(410))) as server, a_client(server.url) as client:
        with pytest.raises(GoneError):
            await client.stream("/x", {})


async def test_a_line_that_never_ends_is_given_up() -> None:
    settings = ClientSettings(max_line_bytes=10)
    answer = web.Response(text="x" * 11)
    async with (
        serving(in_turn(answer)) as server,
        a_client(server.url, settings=settings) as client,
    ):
        lines = await client.stream("/x", {})
        with pytest.raises(UnreachableError, match="more than 10 bytes") as caught:
            await anext(lines)

    assert isinstance(caught.value.__cause__, LineError)


async def test_a_stream_that_falls_silent_is_given_up() -> None:
    settings = ClientSettings(idle_timeout=SHORT)
    answers = in_turn(Unfinished(b"first\n", is_silent=True))
    async with serving(answers) as server, a_client(server.url, settings=settings) as client:
        lines = await client.stream("/x", {})
        first = await anext(lines)
        with pytest.raises(UnreachableError):
            await anext(lines)

    assert first == b"first"


async def chunked(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@given(st.lists(st.binary(min_size=1, max_size=20)), st.lists(st.integers(0, 400)))
def test_lines_are_the_same_however_the_network_cuts_them(
    pieces: list[bytes], cuts: list[int]
) -> None:
    lines = [piece.replace(b"\n", b".") for piece in pieces]
    text = b"".join(line + b"\n" for line in lines)
    edges = [0, *sorted(cut for cut in cuts if cut <= len(text)), len(text)]
    chunks = [text[start:end] for start, end in pairwise(edges)]

    async def split() -> list[bytes]:
        return [line async for line in split_lines(chunked(chunks), max_bytes=20)]

    assert asyncio.run(split()) == lines


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"a" * 11 + b"\n"], id="in one chunk"),
        pytest.param([b"a" * 6, b"a" * 5], id="before its end was seen"),
        pytest.param([b"a" * 10, b"a\n"], id="with its last byte"),
    ],
)
async def test_a_line_over_the_bound_is_an_error_as_soon_as_it_is_known(
    chunks: list[bytes],
) -> None:
    with pytest.raises(LineError):
        await anext(split_lines(chunked(chunks), max_bytes=10))


@given(st.integers(1, 10), st.floats(0, 1, exclude_max=True))
def test_delays_grow_with_the_attempts_but_never_beyond_bounds(attempt: int, chance: float) -> None:
    settings = RetrySettings(attempts=20)
    error = UnreachableError("GET /x", "gone")

    delay = plan_retry(error, attempt=attempt, is_read=True, chance=chance, settings=settings)

    usual = min(settings.first_delay * 2 ** (attempt - 1), settings.longest_delay)
    assert delay is not None
    assert usual * 0.5 <= delay < usual * 1.5 + timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(paths.pods(), "/api/v1/pods", id="all pods"),
        pytest.param(paths.pods("shop"), "/api/v1/namespaces/shop/pods", id="one namespace"),
        pytest.param(
            paths.item(paths.pods("shop"), "web-0", "eviction"),
            "/api/v1/namespaces/shop/pods/web-0/eviction",
            id="a subresource",
        ),
        pytest.param(
            paths.autoscalers(),
            "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers",
            id="a group",
        ),
        pytest.param(
            paths.item(paths.checkpoints("shop"), "web-app"),
            "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints/web-app",
            id="a checkpoint",
        ),
        pytest.param(
            paths.item("/x", "a name?with#signs"), "/x/a%20name%3Fwith%23signs", id="odd names"
        ),
    ],
)
def test_a_path_leads_to_the_object_that_is_named(path: str, expected: str) -> None:
    assert path == expected


async def test_an_odd_name_reaches_the_server_as_it_was_quoted() -> None:
    path = paths.item("/api/v1/pods", "a name?with#signs+é")
    async with serving(lambda _: ok()) as server, a_client(server.url) as client:
        await client.fetch(path, {"limit": "1"})

    assert server.calls == [f"GET {path}"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secrets", "%2e%2e"])
def test_a_name_that_would_lead_elsewhere_is_not_found(name: str) -> None:
    with pytest.raises(NotFoundError):
        paths.item("/api/v1/pods", name)
    with pytest.raises(NotFoundError):
        paths.collection(f"apps/v1/{name}", "deployments", "shop")
