"""A pod for dry runs that is never created, and that any namespace's policies should accept."""

from collections.abc import Mapping
from typing import Final

import msgspec

from trimtab.api.wire import codec
from trimtab.api.wire.codec import Wire
from trimtab.api.wire.metadata import NO_METADATA, Metadata, text_map

_AMOUNTS: Final = {"cpu": "1m", "memory": "1Mi"}
"""Quotas require requests and limits."""
_CONTAINER: Final = {
    "name": "trial",
    "image": "trial",
    "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS},
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    },
}
"""Complies with the restricted profile of Pod Security."""
_SPEC: Final = {
    "restartPolicy": "Never",
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "securityContext": {
        "runAsNonRoot": True,
        "runAsUser": 65534,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "containers": [_CONTAINER],
}


class _Pod(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None


_DECODER: Final = msgspec.json.Decoder(_Pod)


def encode_trial_pod(labels: Mapping[str, str]) -> bytes:
    """Return the JSON of the pod, with these labels."""
    metadata = {"generateName": "trimtab-trial-", "labels": labels}
    return codec.encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _SPEC})


def decode_annotations(data: bytes) -> Mapping[str, str]:
    """Return the annotations in the JSON of a pod."""
    return text_map((codec.decode(_DECODER, data).metadata or NO_METADATA).annotations)
