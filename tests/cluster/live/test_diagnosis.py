"""One look at a cluster: each fact in its time, and what becomes of those that cannot be had."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.fakes.clocks import StillClock
from support.makers.certificates import Pair, a_pair, an_authority
from support.makers.records import NOW
from support.servers.api_server import Asked, a_client, in_turn, ok, refused, serving

from trimtab.api.kinds.access_reviews import Question
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.errors import ClusterError, ForbiddenError
from trimtab.cluster.live import diagnosis
from trimtab.core.diagnosis.components import Component
from trimtab.core.diagnosis.findings import Unseen
from trimtab.core.diagnosis.webhook import CertificateFacts
from trimtab.core.webhook.registration import ServiceAddress

PATIENCE = timedelta(seconds=5)
FORBIDDEN = 'pods is forbidden: User "x" cannot list resource "pods" in API group "" in the'


def decode_name(data: bytes) -> str:
    return str(json.loads(bytes(data))["metadata"]["name"])


def a_page(*names: str, token: str = "") -> web.Response:
    items = [{"metadata": {"name": name, "namespace": "shop"}} for name in names]
    return ok({"metadata": {"resourceVersion": "1", "continue": token}, "items": items})


async def test_a_fact_that_does_not_come_in_time_says_so() -> None:
    found = await diagnosis.attempt(asyncio.Event().wait(), "pods", timedelta(milliseconds=1))

    assert found == Unseen("pods: no answer within 0 s")


async def test_a_missing_right_is_named() -> None:
    message = f'{FORBIDDEN} namespace "shop"'
    async with serving(in_turn(refused(403, message=message))) as server:
        client = a_client(server.url)
        found = await diagnosis.attempt(client.fetch("/api/v1/pods"), "pods", PATIENCE)

    assert isinstance(found, Unseen)
    assert found.why == "pods: you may not list pods in shop"
    assert found.remedy


@pytest.mark.parametrize(
    "message",
    ['forbidden: User "bob" cannot get path "/version"', f"{FORBIDDEN} cluster scope", ""],
    ids=["the API server", "as if of a resource", "no words"],
)
async def test_a_path_of_the_server_is_not_said_to_be_listed(message: str) -> None:
    async with serving(in_turn(refused(403, message=message))) as server:
        client = a_client(server.url)
        found = await diagnosis.attempt(client.fetch("/version"), "server", PATIENCE)

    assert isinstance(found, Unseen)
    assert found.why == "server: you may not get /version"
    assert found.remedy


async def test_what_is_wrong_otherwise_is_told_as_it_is() -> None:
    async def fail() -> None:
        raise DecodeError("spec", "no object")

    assert await diagnosis.attempt(fail(), "pods", PATIENCE) == Unseen("pods: spec: no object")


async def test_long_lists_are_read_page_by_page() -> None:
    async with serving(in_turn(a_page("a", "b", token="more"), a_page("c"))) as server:
        found = await diagnosis.list_all(a_client(server.url), "/api/v1/pods", decode_name)

    assert found == ["a", "b", "c"]
    assert [asked.query.get("continue") for asked in server.asked] == [None, "more"]


async def test_who_may_not_list_everything_lists_a_namespace() -> None:
    answers = in_turn(refused(403, message=FORBIDDEN), a_page("a"))
    async with serving(answers) as server:
        place = ("v1", "pods")
        found = await diagnosis.list_widely(a_client(server.url), place, "shop", decode_name)

    assert found == ["a"]
    assert server.calls == ["GET /api/v1/pods", "GET /api/v1/namespaces/shop/pods"]


async def test_what_is_not_in_the_only_namespace_that_is_seen_may_be_elsewhere() -> None:
    answers = in_turn(refused(403, message=FORBIDDEN), a_page("a"))
    async with serving(answers) as server:
        client, place = a_client(server.url), ("v1", "pods")
        with pytest.raises(ForbiddenError):
            await diagnosis.list_widely(client, place, "shop", lambda _: None)


async def test_without_a_namespace_nothing_else_can_be_listed() -> None:
    async with serving(in_turn(refused(403, message=FORBIDDEN))) as server:
        with pytest.raises(ForbiddenError):
            await diagnosis.list_widely(a_client(server.url), ("v1", "pods"), "", decode_name)


async def test_a_server_may_hide_what_it_can_do() -> None:
    answers = in_turn(ok({"gitVersion": "v1.36.0"}), refused(403, message=FORBIDDEN))
    async with serving(answers) as server:
        found = await diagnosis.fetch_server(a_client(server.url))

    assert found.version == "v1.36.0"
    assert isinstance(found.can_resize, Unseen)


@pytest.mark.parametrize("status", [200, 403])
async def test_the_time_of_the_server_comes_with_any_answer(status: int) -> None:
    headers = {"Date": "Sat, 22 Aug 2026 12:01:00 GMT"}
    answer = web.Response(status=status, body=b"{}", headers=headers)
    async with serving(in_turn(answer)) as server:
        clock = StillClock()
        found = await diagnosis.fetch_clock(a_client(server.url), clock)

    assert found.here == clock.now()
    assert found.there.isoformat() == "2026-08-22T12:01:00.500000+00:00"


async def test_a_time_that_is_none_is_refused() -> None:
    answer = web.Response(body=b"{}", headers={"Date": "soon"})
    async with serving(in_turn(answer)) as server:
        with pytest.raises(DecodeError, match="not a time: 'soon'"):
            await diagnosis.fetch_clock(a_client(server.url), StillClock())


async def test_only_rights_that_are_missing_are_told() -> None:
    def answer(asked: Asked) -> web.Response:
        verb = asked.json["spec"]["resourceAttributes"]["verb"]
        return ok({"status": {"allowed": verb == "list"}})

    async with serving(answer) as server:
        questions = [Question("list", "pods"), Question("watch", "pods")]
        found = await diagnosis.fetch_missing(a_client(server.url), questions, ("a", "b"))

    assert found == ("watch pods",)
    assert set(server.calls) == {"POST /apis/authorization.k8s.io/v1/subjectaccessreviews"}


async def test_copies_behind_a_service_are_counted_once() -> None:
    one = {"endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]}
    other = {"endpoints": [{"addresses": ["10.0.0.2"]}]}
    page = {"metadata": {"resourceVersion": "1"}, "items": [one, other]}
    async with serving(in_turn(ok(page))) as server:
        found = await diagnosis.count_addresses(
            a_client(server.url), ServiceAddress("kube-system", "vpa-webhook")
        )

    assert found == 2
    assert server.asked[0].query["labelSelector"] == "kubernetes.io/service-name=vpa-webhook"


def a_deployment(**selector: Any) -> Any:
    container = {"image": "trimtab", "command": ["trimtab"], "args": ["updater"]}
    return {
        "metadata": {"name": "updater", "namespace": "shop"},
        "spec": {"selector": selector, "template": {"spec": {"containers": [container]}}},
    }


@pytest.mark.parametrize(
    ("selector", "answers"),
    [
        pytest.param({"matchLabels": {"app": "x"}}, [403], id="nobody may see its pods"),
        pytest.param({}, [], id="it does not tell its pods by labels"),
    ],
)
async def test_a_component_is_known_without_its_pods(
    selector: dict[str, Any], answers: list[int]
) -> None:
    page = {"metadata": {"resourceVersion": "1"}, "items": [a_deployment(**selector)]}
    refusals = [refused(code, message=FORBIDDEN) for code in answers]
    async with serving(in_turn(ok(page), *refusals)) as server:
        (found,) = await diagnosis.fetch_installed(a_client(server.url), "")

    assert found.component is Component.UPDATER


async def test_usage_that_may_not_be_seen_is_not_usage_that_is_gone() -> None:
    async with serving(in_turn(refused(403, message=FORBIDDEN), refused(404))) as server:
        client = a_client(server.url)
        with pytest.raises(ForbiddenError):
            await diagnosis.fetch_usage(client, "", [], NOW)
        gone = await diagnosis.fetch_usage(client, "", [], NOW)

    assert gone.problem


@asynccontextmanager
async def showing(pair: Pair, folder: Path) -> AsyncIterator[int]:
    for name, text in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / name).write_text(text, encoding="utf-8")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _.read()
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def shown(pair: Pair, bundle: str, folder: Path) -> CertificateFacts:
    async with showing(pair, folder) as port:
        return await diagnosis.fetch_certificate("127.0.0.1", port, bundle, NOW)


async def test_a_certificate_is_seen_and_believed_by_its_authority(tmp_path: Path) -> None:
    authority, stranger = an_authority(), an_authority()
    pair = a_pair(authority, "webhook")
    good = await shown(pair, authority.certificate, tmp_path)
    bad = await shown(pair, stranger.certificate, tmp_path)
    empty = await shown(pair, "nonsense", tmp_path)

    assert not isinstance(good.shown, Unseen)
    assert good.shown.name == "webhook"
    assert [one.name for one in good.authorities] == ["authority"]
    assert (good.is_believed, bad.is_believed, empty.is_believed) == (True, False, False)
    assert empty.authorities == ()


async def test_where_nobody_listens_no_certificate_is_seen() -> None:
    found = await diagnosis.fetch_certificate("127.0.0.1", 1, "", NOW)

    assert isinstance(found.shown, Unseen)
    assert "port-forward" in found.shown.remedy


def test_any_failure_can_be_put_into_words() -> None:
    assert diagnosis.explain_failure(ClusterError("no way"), "pods") == Unseen("pods: no way")
