"""Flags and metrics: everything that a component of the original has, ours has too."""

from typing import Any

from reference import exposed, flags_page, original_flags, original_metrics
from trimtab.cli.app import app

_FLAGS = {
    "recommender": original_flags.RECOMMENDER,
    "updater": original_flags.UPDATER,
    "admission-controller": original_flags.ADMISSION,
}
_METRICS = {
    "recommender": original_metrics.RECOMMENDER,
    "updater": original_metrics.UPDATER,
    "admission-controller": original_metrics.ADMISSION,
}
"""What `docs` compare ours with."""


def differences(case: dict[str, Any]) -> list[str]:
    """What we lack or list wrongly of the flags and metrics of a component."""
    component, theirs = case["input"]["component"], case["expected"]
    return [
        *_compare("flags", set(theirs["flags"]), set(_FLAGS[component]), _own_flags(component)),
        *_compare("metrics", _shapes(theirs["metrics"]), _listed(component), _own_metrics()),
    ]


def _compare(what: str, theirs: set[Any], listed: set[Any], own: set[Any]) -> list[str]:
    return [
        *(f"{what}: missing != {each}" for each in sorted(theirs - own)),
        *(f"{what} of the reference: missing != {each}" for each in sorted(theirs - listed)),
        *(f"{what} of the reference: {each} != missing" for each in sorted(listed - theirs)),
    ]


def _own_flags(component: str) -> set[str]:
    return {name for row in flags_page.list_rows(app[component]) for name in row.names}


def _shapes(metrics: dict[str, Any]) -> set[tuple[str, str, tuple[str, ...]]]:
    return {
        (name, one["kind"], tuple(sorted(one["labels"] or ()))) for name, one in metrics.items()
    }


def _listed(component: str) -> set[tuple[str, str, tuple[str, ...]]]:
    return {
        (name, one.kind, tuple(sorted(one.labels))) for name, one in _METRICS[component].items()
    }


def _own_metrics() -> set[tuple[str, str, tuple[str, ...]]]:
    return {
        (one.name, one.kind, tuple(sorted(one.labels)))
        for metrics in exposed.list_metrics().values()
        for one in metrics
    }
