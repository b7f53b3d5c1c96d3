"""`trimtab get`: the requests and recommendations of each autoscaler's containers."""

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, TypeAlias, assert_never

from trimtab.cli.commands.read_cluster import ViewFlags, look, say
from trimtab.cli.output import amounts, columns, csv, documents, empty_results
from trimtab.cli.output.amounts import TITLES
from trimtab.cli.output.formats import OUTPUT, Format
from trimtab.core.explain import overview
from trimtab.core.explain.overview import ContainerView
from trimtab.core.model.resources import BOTH, Resource

_VIEW: Final = ViewFlags()


_Format: TypeAlias = Literal[Format.TABLE, Format.JSON, Format.YAML, Format.CSV]


def get(
    *names: str,
    output: Annotated[_Format, OUTPUT] = Format.TABLE,
    view: ViewFlags = _VIEW,
) -> int:
    """Print autoscalers: 0; 1 if a named one does not exist, or a chosen one is unreadable.

    Args:
        names: The autoscalers to show; all of them if none is named.
        output: How it is written.
        view: Which cluster is looked at.
    """
    seen = look(view)
    views = overview.survey(seen.snapshot)
    chosen = [each for each in views if not names or each.autoscaler.name in names]
    hidden = [each for each in seen.unreadable_autoscalers if not names or each.name in names]
    known = {each.autoscaler.name for each in chosen} | {each.name for each in hidden}
    missing = sorted(set(names) - known)
    _write(chosen, output, view)
    for one in hidden:
        say(f"trimtab: {empty_results.describe_unreadable('autoscaler', one)}")
    for one in seen.unreadable_pods:
        say(f"trimtab: {empty_results.describe_unreadable('pod', one)}")
    for name in missing:
        say(f"trimtab: there is no autoscaler {name}")
    if not (views or hidden or missing):
        say(f"trimtab: {empty_results.describe_absence('autoscalers', seen.namespace)}")
    return int(bool(missing or hidden))


def _write(views: Sequence[ContainerView], output: _Format, flags: ViewFlags) -> None:
    match output:
        case Format.TABLE:
            sys.stdout.write(_format_table(views, shows_namespace=flags.all_namespaces))
        case Format.JSON:
            sys.stdout.write(documents.format_json([_record(each) for each in views]))
        case Format.YAML:
            sys.stdout.write(documents.format_yaml([_record(each) for each in views]))
        case Format.CSV:
            sys.stdout.write(csv.format_csv(_csv_rows(views)))
        case _:
            assert_never(output)


def _format_table(views: Sequence[ContainerView], *, shows_namespace: bool) -> str:
    if not views:
        return ""
    header = _header(shows_namespace=shows_namespace)
    rows = [header]
    former = None
    for each in views:
        lead = _lead(each, is_new=each.autoscaler != former, shows_namespace=shows_namespace)
        former = each.autoscaler
        for resource in BOTH:
            rows.append([*lead, TITLES[resource], *_cells(each, resource)])
            lead = [""] * len(lead)
    # Names are cut only on a screen, not in a file.
    lines = columns.lay_out(rows, names=range(header.index("")), width=columns.screen_width())
    return "\n".join(lines) + "\n"


def _lead(view: ContainerView, *, is_new: bool, shows_namespace: bool) -> list[str]:
    """Return the leading cells of a container; an autoscaler is named only once."""
    name = view.autoscaler
    own = [name.namespace, name.name, view.mode.value] if is_new else ["", "", ""]
    return [*own[0 if shows_namespace else 1 :], view.container or "-"]


def _header(*, shows_namespace: bool) -> list[str]:
    place = ["NAMESPACE"] if shows_namespace else []
    numbers = ["REQUEST", "TARGET", "LOWER", "UPPER", "DIFFERENCE"]
    return [*place, "NAME", "MODE", "CONTAINER", "", *numbers]


def _cells(view: ContainerView, resource: Resource) -> list[str]:
    quantities = (view.request, view.target, view.lower, view.upper)
    shown = [amounts.show_amount(resource, each.get(resource)) for each in quantities]
    return [*shown, _difference(view, resource)]


def _difference(view: ContainerView, resource: Resource) -> str:
    difference = view.differences().get(resource)
    if difference is None or not view.request[resource]:
        return "-"
    return f"{100 * difference / view.request[resource]:+.0f}%"


def _record(view: ContainerView) -> dict[str, object]:
    return {
        "namespace": view.autoscaler.namespace,
        "name": view.autoscaler.name,
        "mode": view.mode.value,
        "container": view.container or None,
        "pods": view.pods,
        "request": amounts.write_quantities(view.request),
        "target": amounts.write_quantities(view.target),
        "lowerBound": amounts.write_quantities(view.lower),
        "upperBound": amounts.write_quantities(view.upper),
    }


def _csv_rows(views: Sequence[ContainerView]) -> Iterator[list[object]]:
    numbers = ("request", "target", "lower_bound", "upper_bound")
    yield ["namespace", "name", "mode", "container", "pods", "resource", *numbers]
    for each in views:
        own = [*each.autoscaler, each.mode.value, each.container, each.pods]
        for resource in BOTH:
            quantities = (each.request, each.target, each.lower, each.upper)
            yield [*own, resource.value, *(one.get(resource, "") for one in quantities)]
