"""Ways between pods and the API server: bytes pass, and doors are where Services say they are."""

import asyncio
import ssl
from pathlib import Path

import pytest

from rig import certificates, controlplane, service_relay
from rig.fake_node import Json
from rig.flags import LOOPBACK
from rig.service_relay import ApiServer, Relay


async def _shout_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write((await reader.read(100)).upper())
    await writer.drain()
    writer.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    certificates.make(tmp_path)
    certificates.issue(tmp_path, "relay", "/CN=relay", f"IP:{LOOPBACK}")
    (tmp_path / "tokens.csv").write_text("token,admin,admin,system:masters\n", encoding="utf-8")
    return tmp_path


async def ask(folder: Path, target_port: int) -> bytes:
    """What a pod is answered that says hello to an API server at a port."""
    relay = Relay(ApiServer(target_port, folder), "no-bridge")
    (port,) = controlplane.free_ports(1)
    trust = ssl.create_default_context(cafile=folder / "ca.crt")
    async with await relay.open_to_pods(LOOPBACK, port, folder):
        reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=trust)
        writer.write(b"hello")
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


async def test_what_a_pod_says_reaches_the_server_and_its_answer_comes_back(folder: Path) -> None:
    shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    shown.load_cert_chain(folder / "server.crt", folder / "server.key")
    server = await asyncio.start_server(_shout_back, LOOPBACK, 0, ssl=shown)
    async with server:
        answer = await ask(folder, server.sockets[0].getsockname()[1])

    assert answer == b"HELLO"


async def test_a_server_that_is_gone_ends_the_connection(folder: Path) -> None:
    (nobody,) = controlplane.free_ports(1)
    answer = await ask(folder, nobody)

    assert answer == b""


def a_service(**spec: object) -> Json:
    ports = [{"port": 443, "targetPort": 8000}]
    return {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"ports": ports, **spec}}


@pytest.mark.parametrize(
    ("spec", "doors"),
    [
        pytest.param(
            {"clusterIP": "10.96.7.7", "selector": {"app": "web"}},
            [("10.96.7.7", 443)],
            id="a Service in front of pods has a door",
        ),
        pytest.param(
            {"clusterIP": "None", "selector": {"app": "web"}}, [], id="a headless one not"
        ),
        pytest.param({"clusterIP": "10.96.0.1"}, [], id="nor one whose pods nobody selects"),
        pytest.param({"externalName": "localhost"}, [], id="nor a mere name"),
    ],
)
def test_services_in_front_of_pods_have_doors(spec: Json, doors: list[tuple[str, int]]) -> None:
    assert list(service_relay.find_doors([a_service(**spec)])) == doors


def test_only_pods_that_are_ready_are_led_to() -> None:
    endpoints = [
        {"addresses": ["10.99.0.4"], "conditions": {"ready": False}},
        {"addresses": ["10.99.0.5"], "conditions": {"ready": True}},
    ]
    slices: list[Json] = [
        {"endpoints": endpoints, "ports": [{"port": 8000}]},
        {"endpoints": None, "ports": None},
    ]

    assert service_relay.find_targets(slices) == [("10.99.0.5", 8000)]
