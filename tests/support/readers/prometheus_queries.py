"""Which metrics and labels a query of Prometheus names."""

import re
from dataclasses import dataclass, field

_WORDS = frozenset({"and", "bool", "by", "group_left", "offset", "on", "or", "unless", "without"})
_LISTS = r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)"


@dataclass(slots=True)
class Named:
    """What a query is about."""

    metrics: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    """Those that it sums by, or joins on."""
    selected: set[tuple[str, str]] = field(default_factory=set)
    """Metrics with labels by which it chooses series of them."""


def read_query(expression: str) -> Named:
    """What a query names; variables of Grafana may stand for spans and values."""
    named = Named()
    text = re.sub(r"\[[^\]]*\]", "", expression)
    for metric, labels in re.findall(r"(\w+)\{([^}]*)\}", text):
        names = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels)
        named.selected |= {(metric, name) for name in names}
    text = re.sub(r"\{[^}]*\}", "", text)
    for names in re.findall(_LISTS, text):
        named.labels |= set(re.findall(r"\w+", names))
    text = re.sub(r'"[^"]*"', "", re.sub(_LISTS, "", text))
    words = re.findall(r"\b([a-zA-Z_]\w*)\b(?!\s*\()", text)
    named.metrics = set(words) - _WORDS
    return named
