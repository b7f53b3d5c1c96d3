"""`trimtab checkpoint inspect` and `export`: show checkpoints, and write them to a file."""

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, assert_never

import msgspec
from cyclopts import Parameter

from trimtab import __version__
from trimtab.api.kinds import checkpoint_files, checkpoints
from trimtab.api.wire.codec import JSON, DecodeError
from trimtab.cli.checkpoint import text
from trimtab.cli.checkpoint.text import Inspected
from trimtab.cli.commands import read_cluster
from trimtab.cli.commands.read_cluster import ClusterSession, ViewFlags
from trimtab.cli.errors import FailedError
from trimtab.cli.output import documents, empty_results, files
from trimtab.cli.output.formats import OUTPUT, Format
from trimtab.cluster.http import paths
from trimtab.cluster.live import diagnosis
from trimtab.cluster.live.checkpoints import decode_document, list_checkpoints
from trimtab.core.histogram import checkpoint_summary
from trimtab.core.histogram.checkpoint import CheckpointError
from trimtab.core.model.autoscalers import AutoscalerName

_VIEW: Final = ViewFlags()


_Format: TypeAlias = Literal[Format.TABLE, Format.JSON, Format.YAML]
_FileFormat: TypeAlias = Literal[Format.YAML, Format.JSON]


def inspect(
    *names: str,
    output: Annotated[_Format, OUTPUT] = Format.TABLE,
    buckets: Annotated[bool, Parameter(negative="")] = False,
    view: ViewFlags = _VIEW,
) -> int:
    """Print what checkpoints hold: 0; 1 if one that was named does not exist.

    Args:
        names: The autoscalers, or the checkpoints, to show; all of them if none is named.
        output: How it is written.
        buckets: Show every bucket of the histograms below the table, too.
        view: Which cluster is looked at.
    """
    found, namespace, now = read_cluster.visit(view, _inspect_all)
    chosen = [one for one in found if not names or {one.name, one.autoscaler} & set(names)]
    missing = sorted(set(names) - {name for one in chosen for name in (one.name, one.autoscaler)})
    if chosen:
        sys.stdout.write(_format(chosen, output, now, shows_namespace=view.all_namespaces))
    if buckets and output is Format.TABLE:
        sys.stdout.write(text.to_buckets(chosen))
    for name in missing:
        read_cluster.say(f"trimtab: there is no checkpoint of {name}")
    if not found and not missing:
        read_cluster.say(f"trimtab: {empty_results.describe_absence('checkpoints', namespace)}")
    return int(bool(missing))


def export(
    *names: str,
    output: Annotated[_FileFormat, OUTPUT] = Format.YAML,
    file: Annotated[Path | None, Parameter(name=["--file", "-f"])] = None,
    view: ViewFlags = _VIEW,
) -> int:
    """Write checkpoints as a file that import and kubectl can read: 0; 1 if there are none.

    Args:
        names: The autoscalers whose checkpoints are wanted; those of all if none is named.
        output: How it is written.
        file: Where to write it; to the standard output if not given.
        view: Which cluster is looked at.
    """
    found, visited, now = read_cluster.visit(view, _fetch_all)
    chosen = [one for one in found if not names or _owner(one) in names]
    missing = sorted(set(names) - {_owner(one) for one in chosen})
    if missing:
        raise FailedError(f"there is no checkpoint of {', '.join(missing)}; nothing was written")
    if not chosen:
        raise FailedError(empty_results.describe_absence("checkpoints", visited.namespace))
    document = checkpoint_files.make_file(
        chosen, server=visited.connection.server, at=now, version=__version__
    )
    format_file = documents.format_json if output is Format.JSON else documents.format_yaml
    files.write_out(format_file(document), file)
    read_cluster.say(f"trimtab: {text.count(len(chosen))} exported")
    return 0


async def _fetch_all(
    visited: ClusterSession,
) -> tuple[list[dict[str, JSON]], ClusterSession, datetime]:
    """Return all checkpoints unchanged, with the session and the time."""
    return await _list(visited), visited, visited.clock.now()


async def _inspect_all(visited: ClusterSession) -> tuple[list[Inspected], str, datetime]:
    client, namespace = visited.client, visited.namespace
    documents = await _list(visited)
    autoscalers = await diagnosis.list_all(client, paths.autoscalers(namespace), decode_document)
    names = {AutoscalerName(*_names(one)) for one in autoscalers}
    return [_inspect(one, names) for one in documents], namespace, visited.clock.now()


async def _list(visited: ClusterSession) -> list[dict[str, JSON]]:
    """Return all checkpoints; a FailedError if there is no such namespace."""
    found = await list_checkpoints(visited.client, visited.namespace)
    if not found:
        await empty_results.require_namespace(visited.client, visited.namespace)
    return found


def _inspect(document: dict[str, JSON], autoscalers: set[AutoscalerName]) -> Inspected:
    namespace, name = _names(document)
    try:
        found = checkpoints.decode_checkpoint(msgspec.json.encode(document))
    except DecodeError as error:
        return Inspected(namespace, name, _owner(document), "", str(error))
    owner = AutoscalerName(namespace, found.autoscaler_name)
    is_orphaned = owner not in autoscalers
    place = (namespace, name, found.autoscaler_name, found.container_name)
    try:
        return Inspected(*place, checkpoint_summary.summarize(found.aggregate), is_orphaned)
    except CheckpointError as error:
        return Inspected(*place, str(error), is_orphaned)


def _format(
    found: Sequence[Inspected], output: _Format, now: datetime, *, shows_namespace: bool
) -> str:
    match output:
        case Format.TABLE:
            return text.to_table(found, now, shows_namespace=shows_namespace)
        case Format.JSON:
            return documents.format_json(text.to_records(found))
        case Format.YAML:
            return documents.format_yaml(text.to_records(found))
        case _:
            assert_never(output)


def _names(document: dict[str, JSON]) -> tuple[str, str]:
    metadata = document.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    return str(known.get("namespace", "")), str(known.get("name", ""))


def _owner(document: dict[str, JSON]) -> str:
    spec = document.get("spec")
    return str(spec.get("vpaObjectName", "")) if isinstance(spec, dict) else ""
