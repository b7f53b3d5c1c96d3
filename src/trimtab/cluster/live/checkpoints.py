"""Bulk reads and writes of checkpoints; a write stores all of them, or none.

A dry run of all writes comes before the first write. If one fails even so, the others are undone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from trimtab.api.kinds.checkpoint_files import Manifest
from trimtab.api.wire.codec import JSON, DecodeError
from trimtab.cluster.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
)
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.diagnosis import list_all

_T = TypeVar("_T")

_AT_ONCE: Final = 8
_REFUSALS: Final = (
    UnauthorizedError,
    ForbiddenError,
    NotFoundError,
    ConflictError,
    InvalidError,
    TooManyRequestsError,
)
"""After these errors it is certain that nothing was written."""


def decode_document(data: bytes) -> dict[str, JSON]:
    """Decode the object in the JSON, unchanged."""
    document: dict[str, JSON] = msgspec.json.decode(bytes(data), type=dict)
    return document


async def list_checkpoints(client: Client, namespace: str) -> list[dict[str, JSON]]:
    """List all checkpoints of a namespace, or of all, unchanged."""
    return await list_all(client, paths.checkpoints(namespace), decode_document)


async def find_existing(
    client: Client, manifests: Sequence[Manifest]
) -> dict[tuple[str, str], dict[str, JSON]]:
    """Return those of the checkpoints that exist already, by namespace and name."""

    async def find(manifest: Manifest) -> tuple[Manifest, dict[str, JSON] | None]:
        with suppress(NotFoundError):
            return manifest, decode_document(await client.fetch(_path(manifest)))
        return manifest, None

    found = await _each(manifests, find)
    return {manifest.place: document for manifest, document in found if document is not None}


async def find_missing_namespaces(client: Client, namespaces: Iterable[str]) -> list[str]:
    """Return those of the namespaces that do not exist."""
    missing = []
    for name in sorted(set(namespaces)):
        try:
            await client.fetch(paths.item(paths.collection("v1", "namespaces"), name))
        except NotFoundError:
            missing.append(name)
        except ForbiddenError:
            # A user who may write into a namespace need not be allowed to see it.
            continue
    return missing


async def write_all(
    client: Client,
    manifests: Sequence[Manifest],
    existing: Mapping[tuple[str, str], Mapping[str, JSON]],
    *,
    is_trial: bool,
) -> None:
    """Write all manifests, or none: a trial writes nothing, and raises the same errors."""

    async def attempt(manifest: Manifest) -> None:
        await _write(client, manifest, existing.get(manifest.place), query="?dryRun=All")

    # Most refusals show here, before anything is written: rights, quotas, schemas.
    await _each(manifests, attempt)
    if is_trial:
        return
    written: list[Manifest] = []

    async def write(manifest: Manifest) -> None:
        # A write that is cut off may have succeeded, so it counts as written.
        written.append(manifest)
        try:
            await _write(client, manifest, existing.get(manifest.place))
        except _REFUSALS:
            # The object may belong to another client, who was faster.
            written.remove(manifest)
            raise

    try:
        await _each(manifests, write)
    except BaseException:
        await _each(written, lambda one: _undo(client, one, existing.get(one.place)))
        raise


async def _write(
    client: Client, manifest: Manifest, existing: Mapping[str, JSON] | None, query: str = ""
) -> None:
    if existing is None:
        path = paths.checkpoints(manifest.checkpoint.namespace)
        await client.post(f"{path}{query}", msgspec.json.encode(manifest.document))
        return
    # The version that was seen: a checkpoint written meanwhile is not overwritten.
    metadata = {**_metadata(manifest.document), "resourceVersion": _version(existing)}
    body = msgspec.json.encode({**manifest.document, "metadata": metadata})
    await client.put(f"{_path(manifest)}{query}", body)


async def _undo(client: Client, manifest: Manifest, former: Mapping[str, JSON] | None) -> None:
    # An object that cannot be restored keeps the new content.
    with suppress(ClusterError):
        if former is None:
            await client.delete(_path(manifest))
            return
        # The version of our own write, which the former object does not have.
        now = decode_document(await client.fetch(_path(manifest)))
        metadata = {**_metadata(former), "resourceVersion": _version(now)}
        await client.put(_path(manifest), msgspec.json.encode({**former, "metadata": metadata}))


async def _each(
    manifests: Sequence[Manifest], work: Callable[[Manifest], Awaitable[_T]]
) -> list[_T]:
    """Return the results, in any order; after a failure begin no more and wait for the rest."""
    turns = asyncio.Semaphore(_AT_ONCE)
    done: list[_T] = []
    failures: list[Exception] = []

    async def take_turn(manifest: Manifest) -> None:
        async with turns:
            if failures:
                return
            try:
                done.append(await work(manifest))
            except (ClusterError, DecodeError) as error:
                failures.append(error)

    await asyncio.gather(*(take_turn(one) for one in manifests))
    if failures:
        raise failures[0]
    return done


def _path(manifest: Manifest) -> str:
    namespace, name = manifest.place
    return paths.item(paths.checkpoints(namespace), name)


def _metadata(document: Mapping[str, JSON]) -> dict[str, JSON]:
    metadata = document.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _version(document: Mapping[str, JSON]) -> JSON:
    return _metadata(document).get("resourceVersion")
