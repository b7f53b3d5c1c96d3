"""`trimtab checkpoint import`: store checkpoints from files, all of them or none."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Final

from cyclopts import Parameter

from trimtab.api.kinds import checkpoint_files
from trimtab.api.kinds.checkpoint_files import CheckpointFlaw, Manifest
from trimtab.cli.checkpoint import text
from trimtab.cli.commands import read_cluster
from trimtab.cli.commands.read_cluster import ClusterSession, ConnectionFlags
from trimtab.cli.errors import FailedError, UsageError
from trimtab.cli.output.files import InputFile, read_documents, refuse_flags
from trimtab.cluster.errors import ClusterError, NotFoundError
from trimtab.cluster.http import paths
from trimtab.cluster.live import checkpoints, diagnosis
from trimtab.core.diagnosis.components import LEASES, Component

_WAY: Final = ConnectionFlags()
_FLAGS: Final = ("--dry-run", "--overwrite", "--namespace-map", "--kubeconfig", "--context")
_FRESH: Final = timedelta(minutes=1)


def import_files(
    *files: InputFile,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    namespace_map: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    way: ConnectionFlags = _WAY,
) -> int:
    """Store checkpoints from files, all or none: 0; 1 if any cannot be stored.

    Args:
        files: What export has written, or kubectl get of the original's; - is the standard input.
        dry_run: Let the API server check everything, and store nothing.
        overwrite: Replace checkpoints that are there already.
        namespace_map: Store those of one namespace in another: old=new. Repeat it.
        way: Which cluster they are for; namespaces stand in the files.
    """
    if not files:
        raise UsageError("import needs at least one file, or - for the standard input")
    refuse_flags(files, _FLAGS)
    manifests = _read(files, _parse_map(namespace_map))
    read_cluster.visit(
        way.everywhere(),
        lambda visited: _store(visited, manifests, overwrite=overwrite, is_trial=dry_run),
    )
    done = "can be imported; nothing was stored" if dry_run else "imported"
    sys.stdout.write(f"{text.count(len(manifests))} {done}\n")
    return 0


def _parse_map(pairs: Sequence[str]) -> dict[str, str]:
    parted = [pair.partition("=") for pair in pairs]
    for pair, (old, equals, new) in zip(pairs, parted, strict=True):
        if not (old and equals and new):
            raise UsageError(f"--namespace-map: {pair!r} is not old=new")
    return {old: new for old, _, new in parted}


def _read(files: Sequence[str], namespaces: Mapping[str, str]) -> list[Manifest]:
    """Return the checkpoints of all files; a FailedError if any of them is invalid."""
    documents = [
        (f"{file}: {where}", document)
        for file in files
        for each in read_documents(file)
        for where, document in checkpoint_files.list_documents(each)
    ]
    found = [
        checkpoint_files.read_manifest(where, document, namespaces) for where, document in documents
    ]
    manifests = [one for one in found if isinstance(one, Manifest)]
    flaws = [str(one) for one in found if isinstance(one, CheckpointFlaw)]
    counts = Counter(one.place for one in manifests)
    flaws += [
        f"{'/'.join(place)}: given {count} times" for place, count in counts.items() if count > 1
    ]
    # With a misspelt name, checkpoints would go to their old namespace.
    idle = namespaces.keys() - {
        checkpoint_files.namespace_of(document) for _, document in documents
    }
    flaws += [f"--namespace-map: nothing is in the namespace {name}" for name in sorted(idle)]
    _refuse(flaws)
    if not manifests:
        raise FailedError(f"there are no checkpoints in {', '.join(files)}")
    return manifests


def _refuse(flaws: Sequence[str]) -> None:
    """Write each flaw to standard error, then raise a FailedError; do nothing without flaws."""
    if not flaws:
        return
    for flaw in flaws:
        read_cluster.say(f"trimtab: {flaw}")
    number = f"{len(flaws)} flaw" + "s" * (len(flaws) != 1)
    raise FailedError(f"nothing was imported: {number}, see above")


async def _store(
    visited: ClusterSession, manifests: Sequence[Manifest], *, overwrite: bool, is_trial: bool
) -> None:
    client = visited.client
    places = [one.checkpoint.namespace for one in manifests]
    missing = await checkpoints.find_missing_namespaces(client, places)
    _refuse([f"there is no namespace {name}; --namespace-map {name}=NEW" for name in missing])
    existing = await checkpoints.find_existing(client, manifests)
    if not overwrite:
        _refuse(
            [
                f"{'/'.join(place)}: it exists already; --overwrite replaces it"
                for place in sorted(existing)
            ]
        )
    for warning in (*await _find_orphans(visited, manifests), *await _find_recommenders(visited)):
        read_cluster.say(f"trimtab: warning: {warning}")
    await checkpoints.write_all(client, manifests, existing, is_trial=is_trial)


async def _find_orphans(visited: ClusterSession, manifests: Sequence[Manifest]) -> list[str]:
    """Return a warning for each autoscaler that does not exist."""
    owners = {(one.checkpoint.namespace, one.checkpoint.autoscaler_name) for one in manifests}
    warnings = []
    for namespace, name in sorted(owners):
        try:
            await visited.client.fetch(paths.item(paths.autoscalers(namespace), name))
        except NotFoundError:
            warnings.append(
                f"there is no autoscaler {namespace}/{name}; recommenders remove checkpoints of "
                "autoscalers that are not there"
            )
    return warnings


async def _find_recommenders(visited: ClusterSession) -> list[str]:
    """Return a warning for each running recommender that the caller may see."""
    remedy = "it will overwrite what is imported with what it knows; stop it first"
    warnings: list[str] = []
    with suppress(ClusterError):
        warnings += [
            f"the recommender {one.place} runs: {remedy}: "
            f"kubectl -n {one.namespace} scale deployment {one.name} --replicas=0"
            for one in await diagnosis.fetch_installed(visited.client, "")
            if one.component is Component.RECOMMENDER and one.ready
        ]
    with suppress(ClusterError):
        now = visited.clock.now()
        warnings += [
            f"a recommender holds the lease {one.place}: {remedy}"
            for one in await diagnosis.fetch_leases(visited.client, "")
            if one.name == LEASES[Component.RECOMMENDER]
            and one.holder
            and one.renewed_at is not None
            and now - one.renewed_at < _FRESH
        ]
    return warnings
