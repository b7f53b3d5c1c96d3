"""Sentences for what a command does not find: empty places, no places, unreadable objects."""

from typing import Final

from trimtab.api.wire.lists import Unreadable
from trimtab.cli.errors import FailedError
from trimtab.cluster.errors import ApiError, NotFoundError
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import Client

_NAMESPACES: Final = paths.collection("v1", "namespaces")


def describe_absence(what: str, namespace: str) -> str:
    """Say that there are no objects of a kind in a namespace; in all if it is empty."""
    if not namespace:
        return f"there are no {what} in any namespace"
    return f"there are no {what} in the namespace {namespace}; -A looks into all namespaces"


def describe_unreadable(kind: str, one: Unreadable) -> str:
    """Say that an object of a kind is there and cannot be read, and why not."""
    return f"{kind} {one.namespace}/{one.name} cannot be read: {one.error}"


async def require_namespace(client: Client, namespace: str) -> None:
    """Raise a FailedError if the namespace does not exist; one that is hidden may exist."""
    if not namespace:
        return
    try:
        await client.fetch(paths.item(_NAMESPACES, namespace))
    except NotFoundError as error:
        problem = f"there is no namespace {namespace}; -A looks into all namespaces"
        raise FailedError(problem) from error
    except ApiError:
        # The right to read namespaces is not among those that a reader needs.
        return
