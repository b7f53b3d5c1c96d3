"""From bodies of requests to bodies of answers: decode, review, encode and count.

The module `server` does the networking, `review` the decisions.
"""

import logging
from http import HTTPStatus
from typing import Final

from trimtab.admission import reports
from trimtab.admission.logs import MAX_REFUSAL, RateLimitedLogger, Timer
from trimtab.admission.owner_cache import NotYetError
from trimtab.admission.reports import (
    AdmissionCounts,
    Reviewed,
    ReviewStatus,
    ReviewStep,
    ReviewTrouble,
)
from trimtab.admission.review import UNCHANGED, Review, Reviewer, conclude
from trimtab.admission.server.request_queue import QueueShare
from trimtab.api.admission import reviews
from trimtab.api.admission.reviews import AdmissionRequest, Refused
from trimtab.api.http.requests import HttpRequest
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.ports import NO_TRACES, Tracer

_JSON: Final = "application/json"
_AUTOSCALER: Final = "VerticalPodAutoscaler"
_FAILED: Final = "answer failed"

_logger: Final = logging.getLogger(__name__)


class Answering:
    """Answers every request that a server receives, and counts the results."""

    def __init__(
        self,
        reviewer: Reviewer,
        tally: AdmissionCounts,
        timer: Timer,
        teller: RateLimitedLogger,
        tracer: Tracer = NO_TRACES,
    ) -> None:
        self._reviewer = reviewer
        self._timer = timer
        self._teller = teller
        self._tracer = tracer
        # Even an unused span would cost a notable part of a review.
        self._is_watched = tracer is not NO_TRACES
        self.tally = tally

    def answer(
        self, request: HttpRequest, waited_seconds: float, *, may_wait: bool = False
    ) -> bytes | QueueShare:
        """Return the review that answers the request, whatever the request holds.

        Return the share of the request instead if it may wait, and more may be known soon.
        """
        began = self._timer()
        self._teller.turn_over(began)
        look = self._watch if self._is_watched else self._look_at
        found = look(request, waited_seconds, may_wait=may_wait)
        if isinstance(found, QueueShare):
            return found
        uid, review = found
        decided = self._timer()
        body = reviews.address_draft(review.draft, uid)
        built = self._timer()
        self._count(review, waited_seconds + built - began)
        self.tally.time_steps(
            (ReviewStep.READ, waited_seconds),
            (ReviewStep.ADMIT, decided - began),
            (ReviewStep.BUILD, built - decided),
            (ReviewStep.TOTAL, waited_seconds + built - began),
        )
        return body

    def let_through(self, request: HttpRequest) -> bytes:
        """Return a review that allows any request, for when there is no time to examine it."""
        self.tally.shed += 1
        self._teller.tell("request let through unseen", "too many wait")
        return reviews.encode_review(_uid(request.body), UNCHANGED)

    def allow_failed(self, request: HttpRequest, error: Exception) -> bytes:
        """Return a review that allows the request, after `answer` has raised an error."""
        reports.count_up(self.tally.troubles, ReviewTrouble.FAILED)
        if self._teller.may_tell(_FAILED):
            _logger.error(_FAILED, exc_info=error)
        return reviews.encode_review(_uid(request.body), UNCHANGED)

    def note_written(self, seconds: float) -> None:
        """Count the time of writing an answer."""
        self.tally.time_steps((ReviewStep.WRITE, seconds))

    def note_refused(self, status: HTTPStatus) -> None:
        """Count a connection that the server ended."""
        reports.count_up(self.tally.refused_connections, status.value)
        self._teller.tell("connection refused", f"{status.value} {status.phrase}")

    def _watch(
        self, request: HttpRequest, waited_seconds: float, *, may_wait: bool
    ) -> tuple[str, Review] | QueueShare:
        with self._tracer.span("review") as span:
            found = self._look_at(request, waited_seconds, may_wait=may_wait)
            if not isinstance(found, QueueShare):
                review = found[1]
                span.note("trimtab.resource", review.about.value)
                span.note("trimtab.status", review.status.value)
            return found

    def _look_at(
        self, request: HttpRequest, waited_seconds: float, *, may_wait: bool
    ) -> tuple[str, Review] | QueueShare:
        if not _is_json(request.content_type):
            return _uid(request.body), _misunderstood(
                ReviewTrouble.CONTENT_TYPE, request.content_type
            )
        try:
            asked = reviews.decode_review(request.body)
        except DecodeError as error:
            return _uid(request.body), _misunderstood(ReviewTrouble.BROKEN, str(error))
        try:
            review = self._reviewer.review(asked, waited_seconds=waited_seconds, may_wait=may_wait)
        except NotYetError:
            return QueueShare(asked.resource, asked.namespace)
        if isinstance(review.answer, Refused):
            self._tell_of_refusal(asked, review.answer)
        return asked.uid, review

    def _count(self, review: Review, seconds: float) -> None:
        self.tally.time_review((review.status, review.about), seconds)
        if review.answer.warnings:
            self.tally.warnings += len(review.answer.warnings)
        if isinstance(review.answer, Refused):
            self.tally.refused_autoscalers += 1
        if review.trouble is not None:
            reports.count_up(self.tally.troubles, review.trouble)
            self._teller.tell("review not understood", review.detail, review.trouble)

    def _tell_of_refusal(self, asked: AdmissionRequest, refused: Refused) -> None:
        errors = "; ".join(map(str, refused.errors))
        detail = f"{asked.namespace}/{asked.name}: {errors}"
        self._teller.tell("autoscaler refused", detail, _AUTOSCALER, MAX_REFUSAL)


def _misunderstood(trouble: ReviewTrouble, detail: str) -> Review:
    return conclude(UNCHANGED, ReviewStatus.ERROR, Reviewed.UNKNOWN, trouble, detail)


def _is_json(content_type: str) -> bool:
    return content_type == _JSON or content_type.partition(";")[0].strip().lower() == _JSON


def _uid(body: bytes) -> str:
    """Return the uid that the answer must repeat; empty if it cannot be decoded."""
    try:
        return reviews.decode_uid(body)
    except DecodeError:
        return ""
