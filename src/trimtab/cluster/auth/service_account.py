"""Connection of a pod: the service account that the kubelet mounts into it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trimtab.cluster.auth import credentials
from trimtab.cluster.auth.credentials import (
    Connection,
    FollowedFiles,
    Identity,
    TokenFile,
    read_text,
)
from trimtab.cluster.errors import CredentialsError
from trimtab.cluster.ports import Clock

DIRECTORY: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"


def is_in_cluster(environment: Mapping[str, str], directory: Path = DIRECTORY) -> bool:
    """True if this process runs in a pod with a service account token."""
    return bool(environment.get(_HOST)) and (directory / "token").is_file()


def load_service_account(
    environment: Mapping[str, str], clock: Clock, directory: Path = DIRECTORY
) -> Connection:
    """Return the connection of a pod to the API server of its own cluster."""
    host, port = _variable(environment, _HOST), _variable(environment, _PORT)
    authority = directory / "ca.crt"

    def load() -> TokenFile:
        context = credentials.trust_authority(read_text(authority), str(authority), "")
        return TokenFile(directory / "token", Identity(context), clock)

    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        credentials=FollowedFiles([authority], load, clock),
        namespace=read_text(directory / "namespace").strip() or "default",
    )


def _variable(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise CredentialsError("environment", name, "not set, so this is no pod of a cluster")
    return value
