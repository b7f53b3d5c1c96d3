"""Exec plugins: programs named by a kubeconfig that print a token or a certificate.

Versions v1 and v1beta1 of the protocol. An answer is kept until it expires or is refused. Of
several requests that need a new one, one runs the program and the others wait for it.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from trimtab.api.wire import codec, times
from trimtab.api.wire.codec import DecodeError, Wire
from trimtab.cluster.auth import credentials
from trimtab.cluster.auth.credentials import Identity, with_token
from trimtab.cluster.errors import PluginError
from trimtab.cluster.ports import Clock

VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_SHOWN: Final = 500
_MARGIN: Final = timedelta(seconds=5)
"""Time before its expiry at which an answer counts as expired, since a request takes a while."""


class _Answer(Wire, frozen=True, kw_only=True):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _Credential(Wire, frozen=True, kw_only=True):
    api_version: str | None = None
    kind: str | None = None
    status: _Answer | None = None


_DECODER: Final = msgspec.json.Decoder(_Credential)


@dataclass(frozen=True, slots=True)
class PluginCall:
    """Command and environment of a plugin."""

    api_version: str
    command: tuple[str, ...]
    """The program and its arguments."""
    environment: Mapping[str, str]
    """The whole environment, ours included."""
    cluster: Mapping[str, object] | None = None
    """Facts about the cluster for the plugin, if it wants them."""
    install_hint: str = ""
    patience: timedelta = timedelta(minutes=1)
    """Maximum time that the program may take."""


class ExecPlugin:
    """Credentials that a program prints."""

    def __init__(
        self, call: PluginCall, new_identity: Callable[[], Identity], clock: Clock
    ) -> None:
        """Add what the plugin prints to an identity.

        A certificate that it prints gets a TLS context of its own: connections are shared among
        requests of one context, so none outlives its certificate.
        """
        self._call = call
        self._new_identity = new_identity
        self._before = new_identity()
        self._clock = clock
        self._identity: Identity | None = None
        self._expires_at: datetime | None = None
        self._turn = asyncio.Lock()

    async def present(self) -> Identity:
        """Return the identity that the plugin gave before, or run it now."""
        async with self._turn:
            if self._identity is None or self._has_expired():
                self._identity = await self._ask()
            return self._identity

    async def refresh(self, refused: Identity) -> None:
        """Forget the identity, unless it is another one than was refused."""
        # Several requests may be refused at once; only the first of them asks for another run.
        if refused is self._identity:
            self._identity = None

    def _has_expired(self) -> bool:
        return self._expires_at is not None and self._clock.now() >= self._expires_at - _MARGIN

    async def _ask(self) -> Identity:
        program = self._call.command[0]
        output = await _run(self._call)
        try:
            answer = _decode_answer(output, self._call.api_version)
            expires_at = times.decode_time(
                answer.expiration_timestamp, "status.expirationTimestamp"
            )
        except DecodeError as error:
            raise PluginError(program, error.path, error.problem) from error
        self._expires_at = expires_at
        return self._identify(answer)

    def _identify(self, answer: _Answer) -> Identity:
        identity, program = self._before, self._call.command[0]
        if answer.client_certificate_data:
            identity = self._new_identity()
            _show_certificate(identity, answer, program)
        if not answer.token:
            return identity
        return with_token(identity, answer.token, source=program, field="status.token")


def _show_certificate(identity: Identity, answer: _Answer, program: str) -> None:
    if identity.trust is not None:
        credentials.show_certificate(
            identity.trust,
            answer.client_certificate_data or "",
            answer.client_key_data or "",
            source=program,
            field="status.clientCertificateData",
        )


def _decode_answer(output: bytes, api_version: str) -> _Answer:
    credential = codec.decode(_DECODER, output)
    if credential.kind != "ExecCredential" or credential.api_version != api_version:
        found = f"{credential.kind} of {credential.api_version}"
        raise DecodeError("apiVersion", f"expected ExecCredential of {api_version}, got {found}")
    answer = credential.status or _Answer()
    if not answer.token and not answer.client_certificate_data:
        raise DecodeError("status", "holds neither a token nor a certificate")
    if bool(answer.client_certificate_data) != bool(answer.client_key_data):
        raise DecodeError("status", "holds a certificate without its key, or a key alone")
    return answer


async def _run(call: PluginCall) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            *call.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # The protocol: the plugin reads its ExecCredential from this variable.
            env={**call.environment, "KUBERNETES_EXEC_INFO": _exec_info(call)},
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        problem = f"cannot be started: {(reason or 'no usable command line').lower()}"
        hint = f" ({call.install_hint.strip()})" if call.install_hint else ""
        raise PluginError(call.command[0], "", problem + hint) from error
    return await _outcome(call, process)


async def _outcome(call: PluginCall, process: asyncio.subprocess.Process) -> bytes:
    program = call.command[0]
    try:
        async with asyncio.timeout(call.patience.total_seconds()):
            output, complaint = await process.communicate()
    except TimeoutError as error:
        raise PluginError(program, "", f"gave no answer in {call.patience}") from error
    finally:
        if process.returncode is None:
            # Also at a cancellation: a child that is left behind would keep the pipes open.
            process.kill()
            await process.wait()
    if process.returncode != 0:
        shown = complaint.decode(errors="replace").strip()[-_SHOWN:]
        raise PluginError(program, "", f"ended with {process.returncode}: {shown}".rstrip(": "))
    return output


def _exec_info(call: PluginCall) -> str:
    cluster = {} if call.cluster is None else {"cluster": call.cluster}
    info = {
        "apiVersion": call.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False, **cluster},
    }
    return msgspec.json.encode(info).decode()
