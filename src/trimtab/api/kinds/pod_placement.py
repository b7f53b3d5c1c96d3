"""Placement on the wire: selectors, required affinity and tolerations of a pod."""

from collections.abc import Iterator
from typing import Final

from trimtab.api.wire import metadata
from trimtab.api.wire.codec import Wire
from trimtab.core.model import nodes
from trimtab.core.model.nodes import NO_DEMANDS, NodeExpression, NodeTerm, Placement, Toleration


class WireToleration(Wire, frozen=True, kw_only=True):
    """One entry of `tolerations`."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _Expression(Wire, frozen=True, kw_only=True):
    key: str | None = None
    operator: str | None = None
    values: tuple[str, ...] | None = None


class _Term(Wire, frozen=True, kw_only=True):
    match_expressions: tuple[_Expression, ...] | None = None
    match_fields: tuple[_Expression, ...] | None = None


class _NodeSelector(Wire, frozen=True, kw_only=True):
    node_selector_terms: tuple[_Term, ...] | None = None


class _NodeAffinity(Wire, frozen=True, kw_only=True):
    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None


class _NamespaceSelector(Wire, frozen=True, kw_only=True):
    pass


class _PodTerm(Wire, frozen=True, kw_only=True):
    namespaces: tuple[str, ...] | None = None
    namespace_selector: _NamespaceSelector | None = None


class _WeightedTerm(Wire, frozen=True, kw_only=True):
    pod_affinity_term: _PodTerm | None = None


class _PodAffinity(Wire, frozen=True, kw_only=True):
    required_during_scheduling_ignored_during_execution: tuple[_PodTerm, ...] | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[_WeightedTerm, ...] | None = None


class WireAffinity(Wire, frozen=True, kw_only=True):
    """A pod's `affinity`."""

    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class WireSpread(Wire, frozen=True, kw_only=True):
    """One entry of `topologySpreadConstraints`."""

    when_unsatisfiable: str | None = None


_NO_AFFINITY: Final = WireAffinity()
_VALUES_PER_EXPRESSION: Final = 10


def convert_placement(
    node_selector: dict[str, str | None] | None,
    affinity: WireAffinity | None,
    tolerations: tuple[WireToleration, ...] | None,
) -> Placement | None:
    """Return a pod's demands on nodes; None if it has none that matter."""
    # Every pod tolerates transient node conditions, so those tolerations do not count.
    counted = [each for each in tolerations or () if not nodes.is_passing(each.key or "")]
    if not node_selector and affinity is None and not counted:
        return None
    found = affinity or _NO_AFFINITY
    placement = Placement(
        tuple(sorted(metadata.text_map(node_selector).items())),
        _convert_terms(found.node_affinity),
        tuple(map(_convert_toleration, counted)),
        crosses_namespaces=any(map(_crosses, _pod_terms(found))),
    )
    return None if placement == NO_DEMANDS else placement


def depends_on_pods(affinity: WireAffinity | None, spreads: tuple[WireSpread, ...] | None) -> bool:
    """Return True if other pods decide which nodes a pod may use."""
    if spreads and any(each.when_unsatisfiable != "ScheduleAnyway" for each in spreads):
        return True
    return affinity is not None and any(
        kind is not None and bool(kind.required_during_scheduling_ignored_during_execution)
        for kind in (affinity.pod_affinity, affinity.pod_anti_affinity)
    )


def count_expressions(affinity: WireAffinity) -> int:
    """Count the expressions of the required node affinity.

    Each term counts as one, too, and so do ten values of an expression: each node is compared
    with all of them.
    """
    of_nodes = affinity.node_affinity
    required = of_nodes and of_nodes.required_during_scheduling_ignored_during_execution
    terms = (required and required.node_selector_terms) or ()
    expressions = [
        each
        for term in terms
        for each in (*(term.match_expressions or ()), *(term.match_fields or ()))
    ]
    values = sum(len(each.values or ()) for each in expressions)
    return len(terms) + len(expressions) + values // _VALUES_PER_EXPRESSION


def _convert_toleration(wire: WireToleration) -> Toleration:
    return Toleration(wire.key or "", wire.operator or "Equal", wire.value or "", wire.effect or "")


def _convert_terms(affinity: _NodeAffinity | None) -> tuple[NodeTerm, ...] | None:
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if not required:
        return None
    return tuple(
        NodeTerm(
            tuple(map(_convert_expression, term.match_expressions or ())),
            tuple(map(_convert_expression, term.match_fields or ())),
        )
        for term in required.node_selector_terms or ()
    )


def _convert_expression(wire: _Expression) -> NodeExpression:
    return NodeExpression(wire.key or "", wire.operator or "", wire.values or ())


def _pod_terms(affinity: WireAffinity) -> Iterator[_PodTerm | None]:
    for kind in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if kind is not None:
            yield from kind.required_during_scheduling_ignored_during_execution or ()
            for each in kind.preferred_during_scheduling_ignored_during_execution or ():
                yield each.pod_affinity_term


def _crosses(term: _PodTerm | None) -> bool:
    return term is not None and (bool(term.namespaces) or term.namespace_selector is not None)
