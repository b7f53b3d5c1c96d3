"""Names for shell completion, as far as they can be had at once; silence where they cannot."""

import asyncio
import os
from enum import StrEnum
from pathlib import Path
from typing import Final, assert_never

from trimtab.api.decoding import DecodeError
from trimtab.api.lists import decode_list, decode_name
from trimtab.cli.failures import FailedError
from trimtab.cli.joining import find_way
from trimtab.cli.viewing import joined
from trimtab.cluster import paths
from trimtab.cluster.clock import RealClock
from trimtab.cluster.connecting import usual_files
from trimtab.cluster.credentials import Connection
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.kubeconfig_files import read_files
from trimtab.core.records import dataclass

_PATIENCE_SECONDS: Final = 3.0
"""Whoever has pressed a key does not wait for longer."""
_MOST: Final = "500"


class Named(StrEnum):
    """Things that have names."""

    AUTOSCALER = "autoscaler"
    NAMESPACE = "namespace"
    CONTEXT = "context"


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look for them."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    is_everywhere: bool = False


def list_names(named: Named, place: Place) -> list[str]:
    """All names of a kind; none where nobody tells them."""
    try:
        if named is Named.CONTEXT:
            files = [Path(place.kubeconfig)] if place.kubeconfig else usual_files(os.environ)
            return sorted(read_files(files).contexts)
        clock = RealClock()
        connection = find_way(place.kubeconfig, clock, os.environ, place.context)
        return sorted(set(asyncio.run(_ask(named, place, connection, clock))))
    except (FailedError, ClusterError, DecodeError, TimeoutError):
        return []


async def _ask(named: Named, place: Place, connection: Connection, clock: RealClock) -> list[str]:
    async with asyncio.timeout(_PATIENCE_SECONDS), joined(connection, clock) as client:
        body = await client.fetch(_path(named, place, connection), {"limit": _MOST})
    return list(decode_list(body, decode_name).items)


def _path(named: Named, place: Place, connection: Connection) -> str:
    match named:
        case Named.NAMESPACE | Named.CONTEXT:
            return paths.collection("v1", "namespaces")
        case Named.AUTOSCALER:
            own = place.namespace or connection.namespace
            return paths.autoscalers("" if place.is_everywhere else own)
        case _:
            assert_never(named)
