"""One view of the cluster for several components: whatever any of them has to see."""

from collections.abc import Sequence
from dataclasses import fields

from trimtab.cluster.adapter import Scope


def merge_scopes(scopes: Sequence[Scope]) -> Scope:
    """What all of them see, each kind of object once; all look at the same namespaces."""
    [namespace] = {scope.namespace for scope in scopes}
    seen = {
        field.name: any(getattr(scope, field.name) for scope in scopes)
        for field in fields(Scope)
        if field.type is bool
    }
    kinds = dict.fromkeys(kind for scope in scopes for kind in scope.kinds)
    return Scope(namespace, kinds=tuple(kinds), **seen)
