"""Reviews: the answer to each request of the API server.

A pod gets its size, and an autoscaler gets a verdict. Every other object is allowed unchanged. No
error here blocks a request: it is counted and logged, and the answer is "allowed, unchanged".
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeAlias

import msgspec

from trimtab.admission.admit import Admission, PodTooLargeError
from trimtab.admission.logs import RateLimitedLogger
from trimtab.admission.overlap_guard import Asked, OverlapGuard, Rivals
from trimtab.admission.owner_cache import NotYetError
from trimtab.admission.reports import Reviewed, ReviewStatus, ReviewTrouble
from trimtab.admission.settings import AdmissionSettings
from trimtab.api.admission import reviews
from trimtab.api.admission.new_pods import NewPod
from trimtab.api.admission.reviews import AdmissionRequest, Allowed, Answer, Refused
from trimtab.api.kinds import autoscaler_wire as wire
from trimtab.api.validation import manifests
from trimtab.api.validation.autoscaler import validate
from trimtab.api.wire import field_errors
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.metadata import NO_METADATA
from trimtab.core.model.cap_notes import NoteKind
from trimtab.core.model.json_patch import Patch
from trimtab.core.sizing.admission_patch import Sizing

_KINDS: Final = {
    ("", "pods"): Reviewed.POD,
    ("autoscaling.k8s.io", "verticalpodautoscalers"): Reviewed.AUTOSCALER,
}
"""Reviewed kinds, by group and resource."""
_CREATE: Final = "CREATE"
_UPDATE: Final = "UPDATE"
_KEPT_DRAFT_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of all cached answers: some ten thousand usual ones."""
_RECORD_BYTES: Final = 512
"""Generous size of the records around an answer."""
_MAX_DRAFT_BYTES: Final = 64 * 1024
"""A larger answer is not cached."""

POD_PATIENCE: Final = timedelta(seconds=1)
"""Maximum time for which a pod waits until its owner is known."""
_POD_PATIENCE_SECONDS: Final = POD_PATIENCE.total_seconds()
_MAX_WAITING_POD_BYTES: Final = 64 * 1024
"""A larger pod does not wait: each retry would read it again."""

UNCHANGED: Final = Allowed()

Probe: TypeAlias = Callable[[AdmissionRequest], Patch | None]
"""Returns the patch for a request of the self-test; None for any other request."""

_FAILED: Final = "review failed"
_logger: Final = logging.getLogger(__name__)


def no_probe(request: AdmissionRequest) -> Patch | None:
    """Treat every request as a real one."""
    del request
    return None


class Review(msgspec.Struct, frozen=True, gc=False):
    """The answer to a request, and the facts that are counted."""

    answer: Answer
    draft: bytes
    """The encoded answer without the request's uid."""
    status: ReviewStatus
    about: Reviewed
    trouble: ReviewTrouble | None = None
    detail: str = ""
    """Description of the trouble, for the log."""


def conclude(
    answer: Answer,
    status: ReviewStatus,
    about: Reviewed,
    trouble: ReviewTrouble | None = None,
    detail: str = "",
) -> Review:
    """Return the review with this answer."""
    return Review(answer, reviews.draft_review(answer), status, about, trouble, detail)


_POD_UNCHANGED: Final = conclude(UNCHANGED, ReviewStatus.SKIPPED, Reviewed.POD)


class _SizeReviews:
    """Reviews of new pods, encoded once per sizing: pods with equal templates share one review."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[Sizing, Review]] = OrderedDict()
        self._bytes = 0

    def of(self, sizing: Sizing) -> Review:
        """Return the review of a pod that gets this size."""
        # A cached sizing stays alive, so its id stays unique.
        kept = self._kept.get(id(sizing))
        if kept is not None:
            self._kept.move_to_end(id(sizing))
            return kept[1]
        status = ReviewStatus.APPLIED if sizing.patch else ReviewStatus.SKIPPED
        review = conclude(Allowed(sizing.patch, _warnings(sizing)), status, Reviewed.POD)
        if len(review.draft) <= _MAX_DRAFT_BYTES:
            self._kept[id(sizing)] = sizing, review
            self._bytes += _size_bytes(review)
            while self._bytes > _KEPT_DRAFT_BYTES:
                self._bytes -= _size_bytes(self._kept.popitem(last=False)[1][1])
        return review


def _size_bytes(review: Review) -> int:
    # The patch is not counted: it belongs to the size cache.
    return len(review.draft) + _RECORD_BYTES


class Reviewer:
    """Answers requests from memory, without network requests."""

    def __init__(
        self,
        admission: Admission,
        claims: OverlapGuard,
        settings: AdmissionSettings,
        teller: RateLimitedLogger,
        probe: Probe = no_probe,
    ) -> None:
        self._admission = admission
        self._timer = claims.timer
        self._claims = claims
        self._settings = settings
        self._teller = teller
        self._probe = probe
        self._size_reviews = _SizeReviews()

    def review(
        self, request: AdmissionRequest, *, waited_seconds: float = 0.0, may_wait: bool = False
    ) -> Review:
        """Return the answer to the request; raises NotYetError only, and only if it may wait."""
        try:
            return self._review(request, waited_seconds, may_wait=may_wait)
        except NotYetError:
            raise
        except Exception as error:
            # No error may keep an object from being stored.
            if self._teller.may_tell(_FAILED):
                _logger.exception(_FAILED)
            return _trouble(ReviewTrouble.FAILED, Reviewed.UNKNOWN, repr(error))

    def _review(
        self, request: AdmissionRequest, waited_seconds: float, *, may_wait: bool
    ) -> Review:
        kind = (request.group, request.resource)
        about = _KINDS.get(kind)
        if about is None or request.subresource:
            what = "/".join(part for part in (*kind, request.subresource) if part)
            return _trouble(ReviewTrouble.UNKNOWN_RESOURCE, Reviewed.UNKNOWN, what)
        if request.version != "v1":
            return _trouble(ReviewTrouble.UNKNOWN_VERSION, about, request.version)
        if about is Reviewed.POD:
            may_wait = may_wait and waited_seconds < _POD_PATIENCE_SECONDS
            return self._review_pod(request, may_wait=may_wait)
        return self._review_autoscaler(request, waited_seconds, may_wait=may_wait)

    def _review_pod(self, request: AdmissionRequest, *, may_wait: bool) -> Review:
        if request.operation != _CREATE or request.object is None:
            return _POD_UNCHANGED
        may_wait = may_wait and len(request.object) <= _MAX_WAITING_POD_BYTES
        patch = self._probe(request)
        if patch is not None:
            return conclude(Allowed(patch), ReviewStatus.APPLIED, Reviewed.POD)
        try:
            new = NewPod(request.object, request.namespace)
            is_dry_run = request.is_dry_run
            sizing = self._admission.size(new, may_wait=may_wait, is_dry_run=is_dry_run)
        except PodTooLargeError as error:
            warning = f"the pod keeps its own resources: it has {error}"
            return conclude(Allowed((), (warning,)), ReviewStatus.SKIPPED, Reviewed.POD)
        except DecodeError as error:
            return _trouble(ReviewTrouble.UNREADABLE_POD, Reviewed.POD, str(error))
        return self._size_reviews.of(sizing)

    def _review_autoscaler(
        self, request: AdmissionRequest, waited_seconds: float, *, may_wait: bool
    ) -> Review:
        if request.operation not in {_CREATE, _UPDATE} or request.object is None:
            return conclude(UNCHANGED, ReviewStatus.SKIPPED, Reviewed.AUTOSCALER)
        try:
            new = _placed(wire.decode_wire(request.object), request.namespace)
        except DecodeError as error:
            if _leaves_spec(request.object, request.old_object):
                # It is stored already, and removing its finalizers must stay possible.
                return conclude(UNCHANGED, ReviewStatus.SKIPPED, Reviewed.AUTOSCALER)
            refused = Refused(request.name, manifests.explain_unreadable(request.object, error))
            return conclude(refused, ReviewStatus.SKIPPED, Reviewed.AUTOSCALER)
        old = _decode_old(request.old_object)
        asked = Asked(self._timer() - waited_seconds, may_wait=may_wait)
        rivals = self._find_rivals(new, old, asked)
        verdict = validate(
            new,
            old,
            siblings=rivals.confirmed,
            gates=self._settings.gates,
            allow_overlapping=self._settings.allows_overlapping,
        )
        if not verdict.allowed:
            refused = Refused(request.name, verdict.errors, verdict.warnings)
            return conclude(refused, ReviewStatus.SKIPPED, Reviewed.AUTOSCALER)
        if not request.is_dry_run:
            self._claims.lay(new, old, request.uid)
        status = ReviewStatus.APPLIED if verdict.patch else ReviewStatus.SKIPPED
        warnings = (*verdict.warnings, *map(_doubt, rivals.doubtful))
        return conclude(Allowed(verdict.patch, warnings), status, Reviewed.AUTOSCALER)

    def _find_rivals(
        self,
        new: wire.VerticalPodAutoscaler,
        old: wire.VerticalPodAutoscaler | None,
        asked: Asked,
    ) -> Rivals:
        if self._settings.allows_overlapping:
            # Overlaps only cause a warning here, which is not worth a wait.
            return Rivals(self._claims.find_stored(new))
        return self._claims.find_rivals(new, old, asked)


def _warnings(sizing: Sizing) -> tuple[str, ...]:
    if not sizing.misfits and not sizing.notes:
        return ()
    misfits = (
        f"container {name} keeps its own resources: those of the pod (spec.resources) leave no room"
        " for what is recommended"
        for name in sizing.misfits
    )
    restarts = (
        f"container {name} gets no startup boost: its resizePolicy for cpu is RestartContainer, so"
        " that the end of the boost would restart it; with NotRequired it gets one"
        for name, notes in sizing.notes.items()
        if any(note.kind is NoteKind.BOOST_RESTARTS for note in notes)
    )
    preempts = (
        f"container {name} gets no startup boost: by its priority the pod could preempt others to"
        " make room for it; a priority class with preemptionPolicy Never does not, and"
        " --max-boosted-priority of the admission controller allows it"
        for name, notes in sizing.notes.items()
        if any(note.kind is NoteKind.BOOST_PREEMPTS for note in notes)
    )
    return (*misfits, *restarts, *preempts)


def _doubt(rival: wire.VerticalPodAutoscaler) -> str:
    name = (rival.metadata or NO_METADATA).name
    other = f"VerticalPodAutoscaler {field_errors.quote(name)}" if name else "another one"
    return (
        f"spec.selector: {other} may select the same pods of the same target, and the API server"
        " did not say in time whether it exists; if it does, the oldest that acts on pods is in"
        " charge, and both show the condition ConfigConflict"
    )


def _trouble(trouble: ReviewTrouble, about: Reviewed, detail: str) -> Review:
    return conclude(UNCHANGED, ReviewStatus.ERROR, about, trouble, detail)


def _placed(autoscaler: wire.VerticalPodAutoscaler, namespace: str) -> wire.VerticalPodAutoscaler:
    """Return the autoscaler with the namespace of its request."""
    metadata = msgspec.structs.replace(autoscaler.metadata or NO_METADATA, namespace=namespace)
    return msgspec.structs.replace(autoscaler, metadata=metadata)


def _leaves_spec(new: bytes, old: bytes | None) -> bool:
    """Return True if an update leaves the spec as it is stored."""
    try:
        return old is not None and wire.has_same_spec(new, old)
    except DecodeError:
        return False


def _decode_old(data: bytes | None) -> wire.VerticalPodAutoscaler | None:
    """Return the stored autoscaler; None if there is none, or it cannot be decoded."""
    try:
        return None if data is None else wire.decode_wire(data)
    except DecodeError:
        return None
