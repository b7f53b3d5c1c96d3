"""Programs that print credentials."""

import asyncio
import json
import shlex
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.fakes.clocks import StillClock
from support.makers.certificates import Pair, a_pair, an_authority
from support.makers.kubeconfigs import Json, a_kubeconfig, encoded, headers, load, serving_tls
from support.makers.records import NOW
from support.servers.api_server import a_client

from trimtab.cluster.auth.credentials import Identity
from trimtab.cluster.auth.exec_plugins import ExecPlugin, PluginCall
from trimtab.cluster.errors import CredentialsError

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


@pytest.fixture(scope="module")
def authority() -> Pair:
    return an_authority()


@dataclass(frozen=True)
class Program:
    """A plugin that prints what stands in a file, and counts how often it ran."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "plugin"

    def answer(self, api_version: str = V1, **status: object) -> None:
        credential = {"apiVersion": api_version, "kind": "ExecCredential", "status": status}
        self.prints(json.dumps(credential))

    def prints(self, text: str) -> None:
        (self.folder / "answer").write_text(text, encoding="utf-8")

    @property
    def runs(self) -> list[Json]:
        """What each run was told about itself."""
        log = self.folder / "log"
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program(tmp_path)
    folder = shlex.quote(str(tmp_path))
    script = f'#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" >> {folder}/log\ncat {folder}/answer\n'
    made.path.write_text(script, encoding="utf-8")
    made.path.chmod(0o755)
    return made


def a_plugin(program: Program, clock: StillClock | None = None, **fields: Any) -> ExecPlugin:
    usual: Json = {
        "api_version": V1,
        "command": (str(program.path),),
        "environment": {"PATH": "/usr/bin:/bin"},
    }
    return ExecPlugin(PluginCall(**(usual | fields)), Identity, clock or StillClock())


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_plugin_of_either_version_gives_us_a_token(
    program: Program, tmp_path: Path, version: str
) -> None:
    program.answer(version, token="abc")
    plugin = {"apiVersion": version, "command": "./plugin", "env": None}

    connection = load(a_kubeconfig(tmp_path, user={"exec": plugin}))

    assert await headers(connection) == {"Authorization": "Bearer abc"}
    assert program.runs == [
        {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    ]


async def test_a_plugin_is_told_about_the_cluster_if_it_wants_to_know(
    program: Program, tmp_path: Path
) -> None:
    program.answer(token="abc")
    plugin = {"apiVersion": V1, "command": "./plugin", "provideClusterInfo": True}
    cluster = {"server": "http://here", "certificate-authority-data": encoded("PEM")}

    await headers(load(a_kubeconfig(tmp_path, cluster=cluster, user={"exec": plugin})))

    assert program.runs[0]["spec"]["cluster"] == cluster


async def test_a_plugin_on_the_path_gets_its_arguments_and_variables(tmp_path: Path) -> None:
    answer = {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": "$WHO-$1"}}
    script = f'echo "{json.dumps(answer).replace(chr(34), chr(92) + chr(34))}"'
    plugin = {
        "apiVersion": V1,
        "command": "sh",
        "args": ["-c", script, "sh", "argument"],
        "env": [{"name": "WHO", "value": "ann"}],
    }

    connection = load(a_kubeconfig(tmp_path, user={"exec": plugin}))

    assert await headers(connection) == {"Authorization": "Bearer ann-argument"}


async def test_an_answer_is_kept_until_it_expires(program: Program) -> None:
    clock = StillClock()
    program.answer(token="one", expirationTimestamp="2026-08-22T13:00:00Z")
    plugin = a_plugin(program, clock)
    first = await plugin.present()
    program.answer(token="two", expirationTimestamp="2026-08-22T14:00:00Z")

    clock.moment = NOW + timedelta(minutes=59)
    kept = await plugin.present()
    clock.moment = NOW + timedelta(hours=1)
    renewed = await plugin.present()

    assert kept is first
    assert renewed.headers == (("Authorization", "Bearer two"),)
    assert len(program.runs) == 2


async def test_an_answer_that_never_expires_is_asked_for_again_when_refused(
    program: Program,
) -> None:
    program.answer(token="one")
    plugin = a_plugin(program)
    refused = await plugin.present()

    await plugin.refresh(refused)
    fresh = await plugin.present()
    await plugin.refresh(refused)

    assert fresh is not refused
    assert await plugin.present() is fresh
    assert len(program.runs) == 2


async def test_many_requests_at_once_run_the_plugin_once(program: Program) -> None:
    program.answer(token="one")
    plugin = a_plugin(program)

    given = await asyncio.gather(*(plugin.present() for _ in range(10)))

    assert len(set(map(id, given))) == 1
    assert len(program.runs) == 1


async def test_a_certificate_from_a_plugin_is_shown_and_renewed_on_the_next_connection(
    authority: Pair, program: Program, tmp_path: Path
) -> None:
    def answer(name: str) -> None:
        pair = a_pair(authority, name)
        program.answer(clientCertificateData=pair.certificate, clientKeyData=pair.key)

    plugin = {"apiVersion": V1, "command": "./plugin"}
    async with serving_tls(authority, tmp_path) as url:
        cluster = {"server": url, "certificate-authority-data": encoded(authority.certificate)}
        connection = load(a_kubeconfig(tmp_path, cluster=cluster, user={"exec": plugin}))
        answer("ann")
        async with a_client(connection) as client:
            before = await client.fetch("/")
            answer("bob")
            await connection.credentials.refresh(await connection.credentials.present())
            after = await client.fetch("/")

    assert (before, after) == (b"ann", b"bob")


async def test_a_certificate_over_plain_http_is_of_no_use_but_no_error(program: Program) -> None:
    program.answer(clientCertificateData="c", clientKeyData="k", token="abc")

    identity = await a_plugin(program).present()

    assert identity.trust is None
    assert identity.headers == (("Authorization", "Bearer abc"),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("token: abc", "not valid JSON", id="no JSON"),
        pytest.param("{}", "expected ExecCredential", id="no credential"),
        pytest.param(
            json.dumps({"apiVersion": V1BETA1, "kind": "ExecCredential"}),
            "got ExecCredential of client.authentication.k8s.io/v1beta1",
            id="another version than was asked for",
        ),
        pytest.param(
            json.dumps({"apiVersion": V1, "kind": "ExecCredential"}),
            "neither a token nor a certificate",
            id="nothing in it",
        ),
        pytest.param(
            json.dumps(
                {
                    "apiVersion": V1,
                    "kind": "ExecCredential",
                    "status": {"token": "a", "clientKeyData": "k"},
                }
            ),
            "a key alone",
            id="half a pair",
        ),
        pytest.param(
            json.dumps(
                {
                    "apiVersion": V1,
                    "kind": "ExecCredential",
                    "status": {"token": "a", "expirationTimestamp": "soon"},
                }
            ),
            "status.expirationTimestamp",
            id="no time",
        ),
        pytest.param(
            json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": "a\nb"}}),
            "status.token: a token may only hold",
            id="a token of two lines",
        ),
    ],
)
async def test_an_answer_that_makes_no_sense_names_the_program(
    program: Program, text: str, problem: str
) -> None:
    program.prints(text)

    with pytest.raises(CredentialsError, match=problem) as caught:
        await a_plugin(program).present()

    assert caught.value.source == str(program.path)


async def test_a_plugin_that_fails_tells_its_last_words(program: Program) -> None:
    failing = a_plugin(program, command=("sh", "-c", "echo please log in >&2; exit 3"))

    with pytest.raises(CredentialsError, match="ended with 3: please log in"):
        await failing.present()


async def test_a_plugin_that_is_not_installed_comes_with_its_hint(program: Program) -> None:
    missing = a_plugin(program, command=("no-such-plugin",), install_hint="get it there")

    with pytest.raises(CredentialsError, match=r"cannot be started.*\(get it there\)"):
        await missing.present()


async def test_a_plugin_that_hangs_is_ended(program: Program) -> None:
    hanging = a_plugin(program, command=("sleep", "60"), patience=timedelta(milliseconds=50))

    with pytest.raises(CredentialsError, match="gave no answer"):
        await hanging.present()
