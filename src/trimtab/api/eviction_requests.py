"""Evictions as we ask for them."""

from trimtab.api.encoding import Written, encode
from trimtab.core.pods import Pod


class _Metadata(Written, frozen=True, kw_only=True):
    name: str
    namespace: str


class _Preconditions(Written, frozen=True, kw_only=True):
    uid: str = ""
    resource_version: str = ""


class _DeleteOptions(Written, frozen=True, kw_only=True):
    preconditions: _Preconditions


class _Eviction(Written, frozen=True, kw_only=True):
    api_version: str
    kind: str
    metadata: _Metadata
    delete_options: _DeleteOptions


def encode_eviction(pod: Pod) -> bytes:
    """The JSON of an eviction that only holds for the pod as it was seen, in that very version."""
    return encode(
        _Eviction(
            api_version="policy/v1",
            kind="Eviction",
            metadata=_Metadata(name=pod.name, namespace=pod.namespace),
            delete_options=_DeleteOptions(
                preconditions=_Preconditions(uid=pod.uid, resource_version=pod.resource_version)
            ),
        )
    )
