"""Explanations for people: tables of numbers, lists of checks, in lines that fit a terminal."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from trimtab.api.explain.document import Explanation
from trimtab.api.explain.pods import (
    PlansFrom,
    PodsPage,
    ShownAllocation,
    ShownCheck,
    ShownPod,
    ShownPodContainer,
)
from trimtab.api.explain.recommendation import (
    NumbersFrom,
    NumbersPage,
    ShownContainer,
    ShownNumber,
    ShownResource,
    ShownStep,
)
from trimtab.api.wire.times import parse_time
from trimtab.cli.explain import held_text
from trimtab.cli.output import columns, paragraphs
from trimtab.cli.output.amounts import TITLES, show_amount
from trimtab.core.diagnosis import durations
from trimtab.core.explain.update_checks import CheckVerdict
from trimtab.core.histogram.buckets import MOST
from trimtab.core.model import quantities
from trimtab.core.model.resources import Resource

_WIDEST: Final = 110
_STEP: Final = 14
_NUMBER: Final = 9
_CHECK: Final = 22
_SAME: Final = "="
# Shown for the largest estimate, which stands for one without any confidence.
_ENDLESS: Final = "endless"
_NO_TEMPLATE: Final = "the template of its owner is not known: this pod stands in for the next one"
"""Remark on the sizes of the next pod if they are computed from a running pod."""
_MARKS: Final = {
    CheckVerdict.CLEAR.value: "ok",
    CheckVerdict.BLOCKED.value: "NO",
    CheckVerdict.UNKNOWN.value: "?",
    CheckVerdict.NOT_ASKED.value: "-",
}
_SHOWN_TOGETHER: Final = {
    CheckVerdict.UNKNOWN.value: "only an updater knows",
    CheckVerdict.NOT_ASKED.value: "not asked",
}
_STEPS: Final = {
    "podMinimum": "pod minimum",
    "oomKills": "OOM kills",
    "integerCpu": "whole cores",
}
_CHECKS: Final = {
    "startupBoost": "startup boost",
    "updateMode": "update mode",
    "evictionRequirements": "requirements",
    "coolDown": "cool-down",
    "admissionController": "admission controller",
    "disruptionBudget": "disruption budget",
    "evictionAllowed": "eviction allowed",
    "podDisruptionBudget": "PodDisruptionBudget",
    "earlierEvictions": "earlier evictions",
    "resourceQuota": "resource quota",
}
_ABSENCES: Final = {
    "NotControlled": "no number: the policy does not control it",
    "NoSamples": "no number: nothing is known of its usage yet",
}
_ACTIONS: Final = {
    "Evict": "evicted, so that its successor gets the new size",
    "Resize": "resized in place",
    "Unboost": "taken out of its startup boost",
}


def write_text(explanation: Explanation, now: datetime) -> None:
    """Write the explanation to standard output, wrapped at the width of the screen."""
    width = min(columns.screen_width() or _WIDEST, _WIDEST)
    for line in lay_out(explanation, now, width):
        sys.stdout.write(f"{line}\n")


def lay_out(explanation: Explanation, now: datetime, width: int) -> Iterator[str]:
    """Yield all lines, wrapped at the width where words allow it."""
    yield from map(columns.disarm, _lay_out_all(explanation, now, width))


def _lay_out_all(explanation: Explanation, now: datetime, width: int) -> Iterator[str]:
    autoscaler, numbers, plan = explanation.autoscaler, explanation.numbers, explanation.plan
    yield f"Autoscaler {autoscaler.namespace}/{autoscaler.name}"
    mode = autoscaler.mode
    if autoscaler.unknown_mode:
        mode = f"{mode} (unknown mode {autoscaler.unknown_mode!r}, treated as Off)"
    yield f"  mode {mode}, for {autoscaler.target or 'no target'}"
    for each in autoscaler.conditions:
        if (each.status == "True") == (each.type == "RecommendationProvided"):
            continue
        said = " ".join(filter(None, (each.type, each.status, each.reason)))
        yield from _wrap(f"{said}: {each.message}".rstrip(": "), width, "  ")
    if numbers is not None:
        yield from _lay_out_numbers(numbers, now, width)
    yield from _lay_out_plan(plan, now, width)


def _lay_out_numbers(page: NumbersPage, now: datetime, width: int) -> Iterator[str]:
    yield ""
    yield from _wrap(f"Numbers {_describe_numbers_from(page, now)}.", width)
    for remark in page.remarks:
        yield from _wrap(remark, width, "  - ")
    for container in page.containers:
        yield ""
        yield from _lay_out_container(container, page.at, width)
    for name in page.switched_off:
        yield f"Container {name}: left alone, as the policy says (mode Off)"
    if not page.containers and not page.switched_off:
        yield "  No container is known."


def _describe_numbers_from(page: NumbersPage, now: datetime) -> str:
    if page.source == NumbersFrom.RECOMMENDER.value:
        return f"by the recommender that runs, {_ago(page.at, now)}"
    if page.saved_at is None:
        return "by what the cluster stores: no checkpoint is there yet"
    return (
        f"from checkpoints, the oldest saved {_ago(page.saved_at, now)}, and the default flags of"
        " a recommender"
    )


def _lay_out_container(container: ShownContainer, at: str, width: int) -> Iterator[str]:
    yield f"Container {container.name}"
    if container.first_sample and container.last_sample:
        span = parse_time(container.last_sample) - parse_time(container.first_sample)
        times = f"over {durations.brief(span)}, the last at {_clock(container.last_sample)}"
        yield from _wrap(f"{container.samples} CPU samples {times}", width, "  ")
    if container.histories > 1:
        yield f"  {container.histories} histories put together (labels differ, or restored)"
    for resource in container.resources:
        yield from _lay_out_resource(resource, width)
        for sentence in held_text.describe(resource, at):
            yield from _wrap(sentence, width, "    ")
        yield from held_text.tabulate(resource.held)


def _lay_out_resource(resource: ShownResource, width: int) -> Iterator[str]:
    kind = Resource(resource.resource)
    target, lower, upper = resource.target, resource.lower_bound, resource.upper_bound
    if target is None or lower is None or upper is None:
        yield f"  {TITLES[kind]}: {_ABSENCES.get(resource.absence or '', resource.absence)}"
        return
    yield _row(TITLES[kind], ("LOWER", "TARGET", "UPPER"))
    for step in resource.steps:
        changed = [
            each.before != each.after for each in (step.lower_bound, step.target, step.upper_bound)
        ]
        if step.applies or any(changed):
            row = _row(_STEPS.get(step.step, step.step), _amounts(step, kind))
            yield from _beside(row, step.rule, width)
    values = [_amount(each.value, kind) for each in (lower, target, upper)]
    yield from _beside(_row("comes to", values), _describe_bucket(target, kind), width)
    yield from _describe_published((lower, target, upper), kind, width)


def _amounts(step: ShownStep, kind: Resource) -> list[str]:
    return [
        _SAME if each.before == each.after else _amount(each.after, kind)
        for each in (step.lower_bound, step.target, step.upper_bound)
    ]


def _describe_bucket(target: ShownNumber, kind: Resource) -> str:
    if target.bucket is None:
        return "by OOM kills alone"
    start, end = _amount(target.bucket.start, kind), _amount(target.bucket.end, kind)
    return f"target by bucket {target.bucket.index}, {start} to {end}"


def _describe_published(
    numbers: Sequence[ShownNumber], kind: Resource, width: int
) -> Iterator[str]:
    said = [None if each.published is None else _amount(each.published, kind) for each in numbers]
    if not any(said):
        yield from _beside(_row("published", ["-"] * len(said)), "nothing is published", width)
        return
    same = all(each.published == each.value for each in numbers)
    row = _row("published", [each or "-" for each in said])
    yield from _beside(row, "the same" if same else "what the status says", width)


def _row(title: str, cells: Sequence[str]) -> str:
    return f"  {title:<{_STEP}}" + "".join(f" {cell:>{_NUMBER}}" for cell in cells)


def _lay_out_plan(page: PodsPage, now: datetime, width: int) -> Iterator[str]:
    yield ""
    yield from _wrap(f"Plan {_describe_plan_from(page, now)}.", width)
    for remark in page.remarks:
        yield from _wrap(remark, width, "  - ")
    if page.waiting:
        yield f"  {page.waiting} changes wait for the rate limits of evictions and resizes."
    if not page.pods:
        yield "  Nothing is planned: it governs no running pod."
    for pods in _alike(page.pods):
        yield ""
        is_done = page.source == PlansFrom.UPDATER.value
        yield from _lay_out_pods(pods, _describe_action(pods[0], is_done=is_done), now, width)
    if page.left_out:
        yield ""
        yield f"{page.left_out} pods more are left out; ask for one of them by pod/NAME."


def _describe_plan_from(page: PodsPage, now: datetime) -> str:
    if page.source == PlansFrom.UPDATER.value:
        return f"of the updater that runs, {_ago(page.at, now)}"
    return "as an updater with default flags would make it that remembers nothing"


def _alike(pods: Iterable[ShownPod]) -> list[list[ShownPod]]:
    """Group the pods that have the same action, reason and checks."""
    groups: dict[tuple[object, ...], list[ShownPod]] = {}
    for pod in pods:
        answers = [(each.check, each.verdict, each.reason) for each in pod.checks]
        groups.setdefault((pod.action, pod.reason, *answers), []).append(pod)
    return list(groups.values())


def _lay_out_pods(
    pods: Sequence[ShownPod], action: str, now: datetime, width: int
) -> Iterator[str]:
    pod, *others = pods
    yield f"Pod {pod.pod}"
    if others:
        names = ", ".join(each.pod for each in others)
        yield from _wrap(f"and alike: {names}", width, "  ")
    yield from _wrap(action, width, "  ")
    for container in pod.containers:
        yield from _lay_out_sizes(container, width)
    if not pod.next_from_template and any(each.next is not None for each in pod.containers):
        yield from _wrap(_NO_TEMPLATE, width, "    ")
    for check in pod.checks:
        if check.verdict not in _SHOWN_TOGETHER:
            yield from _lay_out_check(check, now, width)
    for verdict, shown in _SHOWN_TOGETHER.items():
        names = ", ".join(_name(each) for each in pod.checks if each.verdict == verdict)
        if names:
            yield from _beside(f"  {_MARKS[verdict]:<3} {shown:<{_CHECK}}", names, width)


def _describe_action(pod: ShownPod, *, is_done: bool) -> str:
    if pod.action in _ACTIONS:
        because = f" ({pod.reason})" if pod.reason else ""
        return f"{'is' if is_done else 'would be'} {_ACTIONS[pod.action]}{because}"
    way = _ACTIONS.get(pod.way or "")
    return f"left as it is: {pod.reason}" + (f"; else it would be {way}" if way else "")


def _lay_out_sizes(container: ShownPodContainer, width: int) -> Iterator[str]:
    yield from _wrap(f"{container.name} has {_describe_allocation(container.current)}", width, "  ")
    if container.target:
        bounds = [
            f"{kind} {_amount(amount, kind)}{_describe_bounds(container, kind)}"
            for kind, amount in container.target.items()
        ]
        noted = f" ({'; '.join(container.notes)})" if container.notes else ""
        yield from _wrap(f"should have {', '.join(bounds)}{noted}", width, "    ")
    if container.next is not None:
        noted = f" ({'; '.join(container.next_notes)})" if container.next_notes else ""
        shown = _describe_allocation(container.next)
        yield from _wrap(f"the next pod would have {shown}{noted}", width, "    ")


def _describe_bounds(container: ShownPodContainer, kind: str) -> str:
    ends = [(bound or {}).get(kind) for bound in (container.lower_bound, container.upper_bound)]
    if None in ends:
        return ""
    lower, upper = (_amount(each or "", kind) for each in ends)
    return f" [{lower} to {upper}]"


def _describe_allocation(allocation: ShownAllocation) -> str:
    sides = [("requests", allocation.requests), ("limits", allocation.limits)]
    return (
        "; ".join(f"{name} {_describe_amounts(side)}" for name, side in sides if side) or "nothing"
    )


def _describe_amounts(amounts: Mapping[str, str]) -> str:
    return " ".join(f"{kind} {_amount(amount, kind)}" for kind, amount in amounts.items())


def _lay_out_check(check: ShownCheck, now: datetime, width: int) -> Iterator[str]:
    mark = _MARKS[check.verdict] + ("!" if check.decisive else "")
    text = check.text
    if check.until is not None:
        left = parse_time(check.until) - now
        text += f"; passes in {durations.brief(left)}, at {_clock(check.until)}"
    yield from _beside(f"  {mark:<3} {_name(check):<{_CHECK}}", text, width)


def _name(check: ShownCheck) -> str:
    return _CHECKS.get(check.check, check.check)


def _beside(start: str, text: str, width: int) -> list[str]:
    """Wrap text after `start`, with later lines indented to the same column."""
    return paragraphs.wrap(f"{start}  ", text, width) or [start]


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    return paragraphs.wrap(indent, text, width, hang=2 if indent.isspace() else 0)


def _amount(quantity: str, kind: str) -> str:
    resource = Resource(kind)
    amount = quantities.parse_amount(resource, quantity)
    return _ENDLESS if amount >= MOST else show_amount(resource, amount)


def _clock(text: str) -> str:
    """Format a time to the minute."""
    return f"{parse_time(text):%Y-%m-%d %H:%M} UTC"


def _ago(text: str, now: datetime) -> str:
    return f"{durations.brief(now - parse_time(text))} ago"
