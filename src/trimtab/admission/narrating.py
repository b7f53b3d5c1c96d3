"""What the log says of new pods: what each of them got, and from which autoscaler."""

import logging
from typing import Final

from trimtab.admission.telling import Teller
from trimtab.core.annotations import BOOST_PREFIX
from trimtab.core.autoscalers import Autoscaler
from trimtab.core.operations import Add, Patch, pointer
from trimtab.core.pods import PodHead
from trimtab.core.refusals import Withheld

_SIZED: Final = "pod sized"
_UNSIZED: Final = "pod not sized"
_WITHHELD: Final = "new pods do not appear"
_REMEDIES: Final = {
    Withheld.BOOST: "its next pods come without their startup boost",
    Withheld.SIZE: "its next pods keep their own resources",
    Withheld.NOTHING: "its next pods get the full size again",
}
_RESOURCES: Final = "/resources/"
_BOOST: Final = pointer("metadata", "annotations", BOOST_PREFIX)

_logger: Final = logging.getLogger(__name__)


def tell_of_size(teller: Teller, head: PodHead, autoscaler: Autoscaler, patch: Patch) -> None:
    """Tell what a new pod gets, unless enough of its autoscaler's pods were told of this minute."""
    name = f"{autoscaler.namespace}/{autoscaler.name}"
    if teller.may_tell(_SIZED, name, logging.INFO):
        about = {
            # Most new pods have no name yet.
            "owner": _owner(head),
            "autoscaler": name,
            "changes": _changes(patch),
            "boosted": _boosted(patch),
        }
        _logger.info(_SIZED, extra=about)


def log_unsized(teller: Teller, head: PodHead, doubt: str) -> None:
    """Log why a new pod is left as it is, unless enough pods were logged this minute."""
    teller.tell(_UNSIZED, f"{_owner(head)}: {doubt}", "OwnerUnknown")


def log_withheld(teller: Teller, head: PodHead, autoscaler: Autoscaler, withheld: Withheld) -> None:
    """Log that pods of an owner are never created, and which part the next ones do without."""
    name = f"{autoscaler.namespace}/{autoscaler.name}"
    if teller.may_tell(_WITHHELD, name):
        about = {
            "owner": _owner(head),
            "autoscaler": name,
            "withheld": withheld.value,
            "detail": f"{_REMEDIES[withheld]}; the events of the owner name the rule that refuses",
        }
        _logger.warning(_WITHHELD, extra=about)


def _owner(head: PodHead) -> str:
    parts = () if head.owner is None else (head.owner.kind, head.owner.name)
    return "/".join((head.namespace, *parts))


def _changes(patch: Patch) -> dict[str, object]:
    """By container, kind and resource the amounts that are set."""
    return {
        each.path.removeprefix("/spec/").replace(_RESOURCES, "/"): each.value
        for each in patch
        if isinstance(each, Add) and _RESOURCES in each.path and each.value
    }


def _boosted(patch: Patch) -> list[str]:
    """The containers that get more CPU while they start."""
    return [
        each.path.removeprefix(_BOOST)
        for each in patch
        if isinstance(each, Add) and each.path.startswith(_BOOST)
    ]
