"""Validation of `spec.selector`, alone and against the other autoscalers of the same target."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar, assert_never

from trimtab.api.kinds import autoscaler_wire as wire
from trimtab.api.kinds import selectors as wire_selectors
from trimtab.api.kinds.selectors import LabelSelector
from trimtab.api.wire import field_errors, metadata
from trimtab.api.wire.field_errors import ErrorType, FieldError
from trimtab.api.wire.metadata import NO_METADATA
from trimtab.core.model import selector_validation, selectors, size_bounds
from trimtab.core.model.autoscalers import Autoscaler, UpdateMode
from trimtab.core.model.selectors import Overlap, Selector

_PATH: Final = "spec.selector"
_MAX_SHOWN: Final = 200
"""Maximum length of a selector in a message: tenants choose how long selectors are."""

Sibling: TypeAlias = wire.VerticalPodAutoscaler | Autoscaler
"""Another autoscaler: on the wire, or stored with its selector parsed."""

_SiblingT = TypeVar("_SiblingT", wire.VerticalPodAutoscaler, Autoscaler, Sibling)

_MAY_EVICT: Final = {
    UpdateMode.AUTO,
    UpdateMode.RECREATE,
    UpdateMode.IN_PLACE_OR_RECREATE,
    UpdateMode.UPSCALE_ONLY,
}


def selector_errors(
    new: LabelSelector | None, old: LabelSelector | None, *, gate: bool
) -> Iterator[FieldError]:
    """Yield every mistake in the selector; one that an update leaves unchanged passes."""
    if new is None or (new == old and gate):
        return
    if not gate:
        yield field_errors.forbidden(
            _PATH,
            "in order to use selector, you must enable feature gate PodSelector"
            " in the admission-controller args",
        )
        return
    if excess := list(_excess(new)):
        yield from excess
        return
    yield from map(_field_error, _problems(new))
    selector = _selector(new)
    if selector is not None and not selectors.is_satisfiable(selector):
        detail = "contradicts itself: no labels can match it"
        yield field_errors.invalid(_PATH, selectors.format_selector(selector), detail)


def _excess(written: LabelSelector) -> Iterator[FieldError]:
    """Yield errors for lists that are too long to be compared with all siblings."""
    labels, expressions = written.match_labels or {}, written.match_expressions or ()
    counts = {
        f"{_PATH}.matchLabels": (len(labels), size_bounds.MAX_EXPRESSIONS),
        f"{_PATH}.matchExpressions": (len(expressions), size_bounds.MAX_EXPRESSIONS),
        **{
            f"{_PATH}.matchExpressions[{index}].values": (
                len(each.values or ()),
                size_bounds.MAX_VALUES,
            )
            for index, each in enumerate(expressions[: size_bounds.MAX_EXPRESSIONS])
        },
    }
    for path, (count, limit) in counts.items():
        if count > limit:
            yield field_errors.too_many(path, count, limit)


def selector_warnings(spec: wire.Spec) -> Iterator[str]:
    """Yield warnings about a selector with unexpected effects."""
    if spec.selector is None:
        return
    if _is_empty(spec.selector):
        yield f"{_PATH}: an empty selector selects all pods of the target; leave it out instead"
        return
    policy = spec.update_policy or wire.UpdatePolicy()
    mode = policy.update_mode or UpdateMode.RECREATE
    guarded = mode == UpdateMode.IN_PLACE_OR_RECREATE and policy.eviction_requirements
    if mode in _MAY_EVICT and not guarded:
        yield (
            f"{_PATH}: with update mode {mode} a pod may be evicted when it takes on the selected"
            " role; if its successor takes on the role in turn, this goes on for ever. Where roles"
            " change while pods run, use update mode InPlace."
        )


def overlaps(
    new: wire.VerticalPodAutoscaler,
    old: wire.VerticalPodAutoscaler | None,
    others: Sequence[Sibling],
) -> list[str]:
    """Return a description of each other autoscaler that may select the same pods.

    Empty if an update changes neither target nor selector, or if the object's own selector is
    invalid.
    """
    found = find_overlaps(new, others) if claims_anew(new, old) else []
    return [_describe(new, sibling, overlap) for sibling, overlap in found]


def find_overlaps(
    new: wire.VerticalPodAutoscaler, others: Iterable[_SiblingT]
) -> list[tuple[_SiblingT, Overlap]]:
    """Return the other autoscalers of the same target that may select the same pods.

    They are sorted by name. The selector of `new` is valid, and is parsed once for all of them.
    """
    siblings = sorted((each for each in others if _is_sibling(new, each)), key=_name)
    if not siblings:
        return []
    own = _selector(_written(new))
    pairs = ((each, selectors.find_overlap(own, _parsed_selector(each))) for each in siblings)
    return [(each, overlap) for each, overlap in pairs if overlap]


def claims_anew(new: wire.VerticalPodAutoscaler, old: wire.VerticalPodAutoscaler | None) -> bool:
    """Return True if the object has a target and a valid selector, and not both as in `old`."""
    is_unchanged = old is not None and _claim(new) == _claim(old)
    if _target(new) is None or is_unchanged or _is_excessive(_written(new), old):
        return False
    return _is_readable(_written(new))


def _field_error(problem: selector_validation.SelectorProblem) -> FieldError:
    shows_value = problem.kind is selector_validation.ProblemKind.INVALID
    return FieldError(
        ErrorType(problem.kind),
        f"{_PATH}.{problem.path}",
        field_errors.quote(problem.value) if shows_value else "",
        problem.detail,
    )


def _is_empty(written: LabelSelector | None) -> bool:
    return written is None or not (written.match_labels or written.match_expressions)


def _is_excessive(written: LabelSelector | None, old: wire.VerticalPodAutoscaler | None) -> bool:
    """Return True if a selector is refused for its size, so that its content does not matter."""
    is_new = old is None or written != _written(old)
    return written is not None and is_new and any(_excess(written))


def _is_readable(written: LabelSelector | None) -> bool:
    return written is None or not _problems(written)


def _problems(written: LabelSelector) -> list[selector_validation.SelectorProblem]:
    return selector_validation.check(
        metadata.text_map(written.match_labels), wire_selectors.written_expressions(written)
    )


def _selector(written: LabelSelector | None) -> Selector | None:
    """Return the selector; all pods for an invalid one, since it must not pass as harmless."""
    return wire_selectors.convert_selector(written, _PATH) if _is_readable(written) else None


def _parsed_selector(sibling: Sibling) -> Selector | None:
    if isinstance(sibling, Autoscaler):
        return sibling.selector
    return _selector(_written(sibling))


def _describe(new: wire.VerticalPodAutoscaler, sibling: Sibling, overlap: Overlap) -> str:
    kind, name = _target(new) or ("", "")
    target = f"{kind} {field_errors.quote(name)}"
    other = f"VerticalPodAutoscaler {field_errors.quote(_name(sibling))}"
    selector = _parsed_selector(sibling)
    shared = f"{other} ({_show(selector)}) has the same target {target}"
    match overlap:
        case Overlap.CATCH_ALL:
            who = "this object" if _is_empty(_written(new)) else other
            return f"{shared}, and {who} selects all of its pods{_advise(selector)}"
        case Overlap.NO_EXCLUDING_KEY:
            return (
                f"{shared}, and there is no label key on which the two selectors exclude each"
                f" other{_advise(selector)}"
            )
        case _:
            assert_never(overlap)


def _show(selector: Selector | None) -> str:
    if selector is None or selectors.is_catch_all(selector):
        return "no selector"
    text = selectors.format_selector(selector)
    return f"selector {text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + '…'}"


def _advise(selector: Selector | None) -> str:
    """Return an example of a selector that is disjoint from that of a sibling."""
    example = None if selector is None else selectors.excluding_requirement(selector)
    if example is None:
        return (
            "; give both a selector, such as {matchLabels: {role: leader}} and"
            " {matchExpressions: [{key: role, operator: NotIn, values: [leader]}]}"
        )
    values = ", ".join(map(field_errors.quote, example.values))
    listed = f", values: [{values}]" if values else ""
    text = f"{{matchExpressions: [{{key: {example.key}, operator: {example.operator}{listed}}}]}}"
    return f"; disjoint from it is, for example, {text}" if len(text) <= _MAX_SHOWN else ""


def _is_sibling(new: wire.VerticalPodAutoscaler, other: Sibling) -> bool:
    # Only an update meets its own stored object, which has the same name.
    return (
        _namespace(new) == _namespace(other)
        and (not _name(new) or _name(new) != _name(other))
        and _target(new) == _target(other)
    )


def _claim(
    autoscaler: wire.VerticalPodAutoscaler,
) -> tuple[tuple[str, str] | None, LabelSelector | None]:
    """Return target and selector."""
    return _target(autoscaler), _written(autoscaler)


def _target(autoscaler: Sibling) -> tuple[str, str] | None:
    # Without the API version: pods identify their workload by kind and name alone.
    if isinstance(autoscaler, Autoscaler):
        stored = autoscaler.target
        return (stored.kind, stored.name) if stored and stored.kind and stored.name else None
    target = autoscaler.spec and autoscaler.spec.target_ref
    return (target.kind, target.name) if target and target.kind and target.name else None


def _written(autoscaler: wire.VerticalPodAutoscaler) -> LabelSelector | None:
    return autoscaler.spec.selector if autoscaler.spec else None


def _namespace(autoscaler: Sibling) -> str:
    if isinstance(autoscaler, Autoscaler):
        return autoscaler.namespace
    return (autoscaler.metadata or NO_METADATA).namespace or ""


def _name(autoscaler: Sibling) -> str:
    if isinstance(autoscaler, Autoscaler):
        return autoscaler.name
    return (autoscaler.metadata or NO_METADATA).name or ""
