"""Make a connection from a context of kubeconfig files.

Errors name the file and the field of what is broken. Unsafe settings are refused.
"""

import base64
import binascii
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from trimtab.cluster import address
from trimtab.cluster.auth import credentials as trust
from trimtab.cluster.auth import exec_plugins, kubeconfig_files
from trimtab.cluster.auth.credentials import (
    ClientCertificateFiles,
    Connection,
    Credentials,
    FixedCredentials,
    FollowedFiles,
    Identity,
    TokenFile,
    read_text,
    with_token,
)
from trimtab.cluster.auth.exec_plugins import ExecPlugin, PluginCall
from trimtab.cluster.auth.kubeconfig_files import (
    ClusterEntry,
    ContextEntry,
    Kubeconfig,
    Placed,
    Plugin,
    User,
)
from trimtab.cluster.errors import CredentialsError
from trimtab.cluster.ports import Clock

_EntryT = TypeVar("_EntryT")


def load_kubeconfig(
    paths: Sequence[Path],
    *,
    environment: Mapping[str, str],
    clock: Clock,
    context: str = "",
    allow_insecure: bool = False,
) -> Connection:
    """Return the connection of a context; the files' current one unless it is named.

    Plugins run in the environment. A server whose certificate is not to be checked is refused
    unless the caller allows it too. Changed files are read again, but only for the same context
    and server: a user who switches to another cluster must not take components along.
    """
    files = kubeconfig_files.read_files(paths)
    name = context or files.current_context
    chosen, parts = _choose(files, name, environment, clock, allow_insecure=allow_insecure)

    def load() -> Credentials:
        read = kubeconfig_files.read_files(paths)
        _, now = _choose(read, name, environment, clock, allow_insecure=allow_insecure)
        # `kubectl config use-context` rewrites this very file.
        if now.server != parts.server:
            raise now.cluster.error("server", f"was {parts.server} when this process started")
        return now.credentials()

    followed = FollowedFiles([*paths, *parts.authority_files], load, clock)
    return parts.connection(chosen.entry.namespace or "default", followed)


def _choose(
    files: Kubeconfig,
    name: str,
    environment: Mapping[str, str],
    clock: Clock,
    *,
    allow_insecure: bool,
) -> "tuple[Placed[ContextEntry], _Parts]":
    chosen = _find(files, files.contexts, "contexts", name)
    cluster_name = chosen.entry.cluster or ""
    cluster = _find(files, files.clusters, "clusters", cluster_name)
    user = Placed(User(), chosen.file, f"{chosen.field}.user")
    if chosen.entry.user:
        user = _find(files, files.users, "users", chosen.entry.user)
    return chosen, _Parts(cluster, user, environment, clock, allow_insecure)


def _find(
    files: Kubeconfig, entries: Mapping[str, Placed[_EntryT]], section: str, name: str
) -> Placed[_EntryT]:
    source = ", ".join(str(path) for path in files.files)
    if not name:
        wanted = "current-context" if section == "contexts" else "contexts"
        raise CredentialsError(source, wanted, f"does not say which of the {section} to use")
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise CredentialsError(source, section, f"there is no {name!r}; there is: {known}")
    return entries[name]


@dataclass(frozen=True, slots=True)
class _Parts:
    """Entries and settings from which a connection is made."""

    cluster: Placed[ClusterEntry]
    user: Placed[User]
    environment: Mapping[str, str]
    clock: Clock
    allow_insecure: bool

    def connection(self, namespace: str, credentials: Credentials) -> Connection:
        """Return the connection, with the context's namespace."""
        cluster = self.cluster.entry
        proxy = cluster.proxy_url or ""
        return Connection(
            server=self.server,
            credentials=credentials,
            namespace=namespace,
            server_name=cluster.tls_server_name or "",
            proxy=_address(self.cluster, "proxy-url", proxy) if proxy else "",
        )

    @property
    def server(self) -> str:
        """The address without a slash at its end."""
        return _address(self.cluster, "server", self.cluster.entry.server or "")

    @property
    def authority_files(self) -> list[Path]:
        """The files that hold the authority's certificates, if any do."""
        path = self.cluster.entry.certificate_authority
        return [self.cluster.resolve(path)] if path else []

    def credentials(self) -> Credentials:
        """Return the credentials that the user's entry describes."""
        user = self.user.entry
        # client-go's order of precedence: a token in the file wins over a plugin.
        if user.exec is not None and not user.token and not user.token_file:
            call = _plugin_call(self.user, user.exec, self.cluster, self.environment)
            return ExecPlugin(call, self._identity, self.clock)
        if user.token_file:
            path = self.user.resolve(user.token_file)
            return TokenFile(path, self._identity(), self.clock)
        if user.auth_provider is not None and not user.token:
            raise self.user.error("auth-provider", "no longer part of Kubernetes; use `exec`")
        if user.client_certificate and not user.client_certificate_data:
            return ClientCertificateFiles(self._whole_identity)
        return FixedCredentials(self._whole_identity())

    def _identity(self) -> Identity:
        return Identity(self._new_trust(), _impersonation(self.user))

    def _whole_identity(self) -> Identity:
        user = self.user.entry
        if user.token:
            place = {"source": str(self.user.file), "field": f"{self.user.field}.token"}
            return with_token(self._identity(), user.token, **place)
        return _with_password(self._identity(), user)

    def _new_trust(self) -> ssl.SSLContext | None:
        if not self.server.startswith("https://"):
            return None
        context = self._trust_server()
        user, entry = self.user, self.user.entry
        name = "client-certificate"
        certificate = _pem(user, name, entry.client_certificate_data, entry.client_certificate)
        key = _pem(user, "client-key", entry.client_key_data, entry.client_key)
        # Half a pair would be a request without a client certificate, and a misleading 401.
        if bool(certificate) != bool(key):
            raise user.error(name, "a certificate and its key come together")
        if certificate:
            where = f"{user.field}.{name}"
            trust.show_certificate(context, certificate, key, source=str(user.file), field=where)
        return context

    def _trust_server(self) -> ssl.SSLContext:
        cluster, entry = self.cluster, self.cluster.entry
        if entry.insecure_skip_tls_verify:
            if not self.allow_insecure:
                problem = "refused: any server could pose as this one and get our credentials"
                raise cluster.error("insecure-skip-tls-verify", problem)
            return trust.trust_anyone()
        name = "certificate-authority"
        data, path = entry.certificate_authority_data, entry.certificate_authority
        authority = _pem(cluster, name, data, path)
        return trust.trust_authority(authority, str(cluster.file), f"{cluster.field}.{name}")


def _address(cluster: Placed[ClusterEntry], field: str, text: str) -> str:
    """Check the address and return it without a slash at its end."""
    try:
        address.parse_address(text)
    except ValueError as error:
        raise cluster.error(field, f"no address: {error}") from error
    return text.rstrip("/")


def _pem(place: Placed[_EntryT], name: str, data: str | None, path: str | None) -> str:
    """Return the text of the field that ends in -data, which wins, or else of the file."""
    if data:
        try:
            return base64.b64decode(data, validate=True).decode()
        except (binascii.Error, ValueError) as error:
            raise place.error(f"{name}-data", "no base64 of a PEM text") from error
    return read_text(place.resolve(path)) if path else ""


def _with_password(identity: Identity, user: User) -> Identity:
    if not user.username:
        return identity
    pair = f"{user.username}:{user.password or ''}".encode()
    header = f"Basic {base64.b64encode(pair).decode()}"
    return Identity(identity.trust, (*identity.headers, ("Authorization", header)))


def _impersonation(user: Placed[User]) -> tuple[tuple[str, str], ...]:
    given = [
        ("Impersonate-User", user.entry.impersonated),
        ("Impersonate-Uid", user.entry.impersonated_uid),
        *(("Impersonate-Group", group) for group in user.entry.impersonated_groups or ()),
    ]
    headers = tuple((name, value) for name, value in given if value)
    if not all(value.isprintable() for _, value in headers):
        raise user.error("as", "a name may only hold printable characters")
    return headers


def _plugin_call(
    user: Placed[User],
    plugin: Plugin,
    cluster: Placed[ClusterEntry],
    environment: Mapping[str, str],
) -> PluginCall:
    if plugin.api_version not in exec_plugins.VERSIONS:
        known = " or ".join(exec_plugins.VERSIONS)
        raise user.error("exec.apiVersion", f"expected {known}, got {plugin.api_version!r}")
    if plugin.interactive_mode == "Always":
        raise user.error(
            "exec.interactiveMode",
            "components have no terminal where the plugin could ask; use IfAvailable or Never",
        )
    # A bare name is looked up on PATH, a path is relative to the folder of the file.
    command = str(user.resolve(plugin.command)) if "/" in plugin.command else plugin.command
    # The plugin sees our environment, with its own variables over it.
    own = {variable.name: variable.value for variable in plugin.env or ()}
    return PluginCall(
        api_version=plugin.api_version,
        command=(command, *(plugin.args or ())),
        environment={**environment, **own},
        cluster=_cluster_info(cluster) if plugin.provide_cluster_info else None,
        install_hint=plugin.install_hint or "",
    )


def _cluster_info(cluster: Placed[ClusterEntry]) -> dict[str, object]:
    entry = cluster.entry
    data, path = entry.certificate_authority_data, entry.certificate_authority
    authority = _pem(cluster, "certificate-authority", data, path)
    given = {
        "server": entry.server,
        "tls-server-name": entry.tls_server_name,
        "insecure-skip-tls-verify": entry.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
        "proxy-url": entry.proxy_url,
    }
    return {name: value for name, value in given.items() if value}
