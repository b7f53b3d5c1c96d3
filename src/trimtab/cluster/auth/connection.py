"""Find the API server: by a named file, as a pod of its cluster, or by a person's files."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from trimtab.cluster.auth import proxies, service_account
from trimtab.cluster.auth.credentials import Connection
from trimtab.cluster.ports import Clock

_VARIABLE: Final = "KUBECONFIG"


class _Kubeconfigs(Protocol):
    """Interface of `trimtab.cluster.auth.kubeconfig`, which is imported late."""

    def load_kubeconfig(
        self,
        paths: Sequence[Path],
        *,
        environment: Mapping[str, str],
        clock: Clock,
        context: str,
        allow_insecure: bool,
    ) -> Connection: ...


def find_connection(
    named: str,
    *,
    environment: Mapping[str, str],
    clock: Clock,
    context: str = "",
    allow_insecure: bool = False,
    account: Path = service_account.DIRECTORY,
) -> Connection:
    """Return the connection that the named kubeconfig describes; without one, look around.

    In a pod that is its service account; else the files of `$KUBECONFIG`, else `~/.kube/config`.
    A kubeconfig without `proxy-url` leaves the proxy to the environment.
    """
    found = _find_connection(
        named,
        environment=environment,
        clock=clock,
        context=context,
        allow_insecure=allow_insecure,
        account=account,
    )
    if found.proxy:
        return found
    return replace(found, proxy=proxies.find_proxy(found.server, environment))


def _find_connection(
    named: str,
    *,
    environment: Mapping[str, str],
    clock: Clock,
    context: str,
    allow_insecure: bool,
    account: Path,
) -> Connection:
    if not named and not context and service_account.is_in_cluster(environment, account):
        return service_account.load_service_account(environment, clock, account)
    # A pod needs neither this module nor the YAML parser that comes with it.
    kubeconfigs = cast("_Kubeconfigs", import_module("trimtab.cluster.auth.kubeconfig"))
    return kubeconfigs.load_kubeconfig(
        [Path(named)] if named else usual_files(environment),
        environment=environment,
        clock=clock,
        context=context,
        allow_insecure=allow_insecure,
    )


def usual_files(environment: Mapping[str, str]) -> Sequence[Path]:
    """List the kubeconfigs of this environment: `$KUBECONFIG`, else `~/.kube/config`."""
    listed = [Path(part) for part in environment.get(_VARIABLE, "").split(":") if part]
    return listed or [Path(environment.get("HOME", "/")) / ".kube" / "config"]
