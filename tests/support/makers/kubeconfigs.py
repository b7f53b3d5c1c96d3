"""Kubeconfigs, what they lead to, and a server that sees certificates."""

import base64
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from support.fakes.clocks import StillClock
from support.makers.certificates import Pair, a_pair
from support.servers.api_server import a_client

from trimtab.cluster.auth.credentials import Connection
from trimtab.cluster.auth.kubeconfig import load_kubeconfig

Json = dict[str, Any]

PLAIN = {"server": "http://127.0.0.1:1"}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def a_kubeconfig(
    folder: Path,
    *,
    cluster: Mapping[str, object] = PLAIN,
    user: Mapping[str, object] | None = None,
    name: str = "config",
    **fields: object,
) -> Path:
    document = {
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": "me", "user": user or {}}],
        "contexts": [
            {"name": "work", "context": {"cluster": "here", "user": "me", "namespace": "shop"}}
        ],
        "current-context": "work",
        **fields,
    }
    path = folder / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def load(*paths: Path, **options: Any) -> Connection:
    usual: Json = {"environment": {"PATH": "/usr/bin:/bin"}, "clock": StillClock()}
    return load_kubeconfig(paths, **(usual | options))


async def headers(connection: Connection) -> dict[str, str]:
    return dict((await connection.credentials.present()).headers)


@asynccontextmanager
async def serving_tls(authority: Pair, folder: Path) -> AsyncIterator[str]:
    """A server that tells each client the name in its certificate."""
    pair = a_pair(authority, "server")
    (folder / "server.crt").write_text(pair.certificate, encoding="utf-8")
    (folder / "server.key").write_text(pair.key, encoding="utf-8")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.certificate)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.verify_mode = ssl.CERT_OPTIONAL

    async def respond(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert") or {}
        names = [value for ((_, value),) in shown.get("subject", ())]
        return web.Response(text=names[0] if names else "nobody")

    runner = web.ServerRunner(web.Server(respond))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def ask(connection: Connection) -> str:
    async with a_client(connection) as client:
        return (await client.fetch("/")).decode()
