"""Many checkpoints at once, out of a cluster and into one: all of them, or none.

Whether all can be written is tried before the first is; what fails in spite of that is undone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from trimtab.api.crds.schema import JSON
from trimtab.api.kinds.checkpoint_files import Manifest
from trimtab.api.wire.codec import DecodeError
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
"""After these nothing was written for sure."""


def decode_document(data: bytes) -> dict[str, JSON]:
    """The object in the JSON, as it is."""
    document: dict[str, JSON] = msgspec.json.decode(bytes(data), type=dict)
    return document


async def list_checkpoints(client: Client, namespace: str) -> list[dict[str, JSON]]:
    """All checkpoints of a namespace, or of all, as they are."""
    return await list_all(client, paths.checkpoints(namespace), decode_document)


async def find_existing(
    client: Client, manifests: Sequence[Manifest]
) -> dict[tuple[str, str], dict[str, JSON]]:
    """Those checkpoints that are there already, by namespace and name."""

    async def find(manifest: Manifest) -> tuple[Manifest, dict[str, JSON] | None]:
        with suppress(NotFoundError):
            return manifest, decode_document(await client.fetch(_path(manifest)))
        return manifest, None

    found = await _each(manifests, find)
    return {manifest.place: document for manifest, document in found if document is not None}


async def find_missing_namespaces(client: Client, namespaces: Iterable[str]) -> list[str]:
    """Those of the namespaces that are not there."""
    missing = []
    for name in sorted(set(namespaces)):
        try:
            await client.fetch(paths.item(paths.collection("v1", "namespaces"), name))
        except NotFoundError:
            missing.append(name)
        except ForbiddenError:
            # Who may write into a namespace need not be allowed to see it.
            continue
    return missing


async def write_all(
    client: Client,
    manifests: Sequence[Manifest],
    existing: Mapping[tuple[str, str], Mapping[str, JSON]],
    *,
    is_trial: bool,
) -> None:
    """Write all manifests, or none: in a trial nothing is written, and errors are the same."""

    async def attempt(manifest: Manifest) -> None:
        await _write(client, manifest, existing.get(manifest.place), query="?dryRun=All")

    await _each(manifests, attempt)
    if is_trial:
        return
    written: list[Manifest] = []

    async def write(manifest: Manifest) -> None:
        # Of a write that is cut off nobody knows whether it came through.
        written.append(manifest)
        try:
            await _write(client, manifest, existing.get(manifest.place))
        except _REFUSALS:
            # It may be of somebody else, who was faster.
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
    metadata = {**_metadata(manifest.document), "resourceVersion": _version(existing)}
    body = msgspec.json.encode({**manifest.document, "metadata": metadata})
    await client.put(f"{_path(manifest)}{query}", body)


async def _undo(client: Client, manifest: Manifest, former: Mapping[str, JSON] | None) -> None:
    # What cannot be undone either is as it was wanted.
    with suppress(ClusterError):
        if former is None:
            await client.delete(_path(manifest))
            return
        now = decode_document(await client.fetch(_path(manifest)))
        metadata = {**_metadata(former), "resourceVersion": _version(now)}
        await client.put(_path(manifest), msgspec.json.encode({**former, "metadata": metadata}))


async def _each(
    manifests: Sequence[Manifest], work: Callable[[Manifest], Awaitable[_T]]
) -> list[_T]:
    """What came of each, in any order; after a failure no other is begun, and none is left."""
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
