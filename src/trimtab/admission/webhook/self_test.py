"""The self-test: whether a pod that is created now would come to us, and our patch to it.

A pod that is only tried (a dry run) bears a label with a word that nobody else knows. Whoever
of us is asked about it writes that word into an annotation; if it comes back, the whole path works:
registration, address, certificate, server, patch. No pod is made, and no other pod is treated so.

Where a quota or a policy does not let the trial pod in, the same is found out in another way: our
patch breaks the pod, which the API server tells before it asks anybody else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trimtab.api.admission.reviews import AdmissionRequest
from trimtab.api.kinds import pods
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.errors import (
    ApiError,
    ClusterError,
    ForbiddenError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from trimtab.cluster.ports import WebhookHost
from trimtab.core.model import json_patch
from trimtab.core.model.json_patch import Add, Patch
from trimtab.core.model.pods import Pod
from trimtab.core.webhook.registration import SELF_TEST_LABEL

ANSWER: Final = "trimtab.dev/self-tested"
"""The annotation, or the broken label, by which we answer."""
BREAK_LABEL: Final = "trimtab.dev/self-test-breaks"
"""Asks for an answer that breaks the pod."""
_BREAKS: Final = "!"
"""No label may begin so."""


class SelfTestOutcome(StrEnum):
    """What came of a self-test; the value names it to users."""

    PASSED = "Passed"
    UNCHANGED = "Unchanged"
    """The pod came back as it was: we are not registered, not reached or not believed."""
    RIGHT_MISSING = "RightMissing"
    """We may not try pods in our own namespace."""
    REFUSED = "Refused"
    """The API server does not let the pod in; if our failure policy is Fail, that may be us."""
    UNREACHABLE = "Unreachable"
    """The API server does not answer."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a self-test, and what the API server said."""

    outcome: SelfTestOutcome
    detail: str = ""

    @property
    def has_passed(self) -> bool:
        """Whether new pods get their size."""
        return self.outcome is SelfTestOutcome.PASSED


class SelfTest:
    """Tries the path of a new pod; an instance is what a status lease asks before each renewal."""

    def __init__(
        self,
        host: WebhookHost,
        namespace: str,
        *,
        make_word: Callable[[], str],
        tell: Callable[[Result], None],
    ) -> None:
        self._host = host
        self._namespace = namespace
        self._make_word = make_word
        self._tell = tell

    async def __call__(self) -> bool:
        """Whether a pod that is created now would get our patch."""
        result = await self.run()
        self._tell(result)
        return result.has_passed

    async def run(self) -> Result:
        """What came of one test."""
        try:
            return await self._try_whole()
        except UnreachableError as error:
            return Result(SelfTestOutcome.UNREACHABLE, str(error))
        except ForbiddenError as error:
            lacks_right = error.right is not None
            return Result(
                SelfTestOutcome.RIGHT_MISSING if lacks_right else SelfTestOutcome.REFUSED,
                str(error),
            )
        except ClusterError as error:
            return Result(SelfTestOutcome.REFUSED, str(error))

    async def _try_whole(self) -> Result:
        word = self._make_word()
        try:
            annotations = await self._host.try_pod(self._namespace, {SELF_TEST_LABEL: word})
        except ApiError as error:
            if not _may_be_policy(error):
                raise
            return await self._try_broken(word)
        if annotations.get(ANSWER) == word:
            return Result(SelfTestOutcome.PASSED)
        return Result(SelfTestOutcome.UNCHANGED, "the trial pod came back without our patch")

    async def _try_broken(self, word: str) -> Result:
        """The same without the pod being let in."""
        labels = {SELF_TEST_LABEL: word, BREAK_LABEL: "true"}
        try:
            await self._host.try_pod(self._namespace, labels)
        except ApiError as error:
            if _BREAKS + word in error.status.message:
                return Result(SelfTestOutcome.PASSED)
            raise
        return Result(SelfTestOutcome.UNCHANGED, "the trial pod came back without our patch")


def make_probe(namespace: str) -> Callable[[AdmissionRequest], Patch | None]:
    """What answers the trial pods of all copies that run in the namespace."""
    mark = SELF_TEST_LABEL.encode()

    def answer(request: AdmissionRequest) -> Patch | None:
        """The patch for a trial pod; None for any other request."""
        data = request.object
        if not request.is_dry_run or request.namespace != namespace or data is None:
            return None
        # Until it is decoded, the object is a view of the review.
        if mark not in bytes(data):
            return None
        try:
            return answer_trial(pods.decode_pod(data))
        except DecodeError:
            return None

    return answer


def answer_trial(pod: Pod) -> Patch | None:
    """The patch by which we answer a trial pod; None for a pod that is none."""
    word = pod.labels.get(SELF_TEST_LABEL, "")
    if not word:
        return None
    if BREAK_LABEL in pod.labels:
        return (Add(json_patch.pointer("metadata", "labels", ANSWER), _BREAKS + word),)
    annotation = Add(json_patch.pointer("metadata", "annotations", ANSWER), word)
    if pod.annotations or pod.has_empty_annotations:
        return (annotation,)
    return (Add(json_patch.pointer("metadata", "annotations"), {}), annotation)


def _may_be_policy(error: ApiError) -> bool:
    """Whether the pod, rather than we or the server, may be what is wrong."""
    if isinstance(error, ForbiddenError):
        return error.right is None
    return not isinstance(error, TooManyRequestsError | UnauthorizedError | UnreachableError)
