"""The self-test: checks that a pod created now would reach the webhook and get its patch.

A dry-run pod carries a label with a secret word. The copy of the webhook that reviews the pod
writes that word into an annotation. If it comes back, the whole path works: registration, address,
certificate, server, patch. No pod is created, and no other pod is treated so.

A quota or a policy may refuse the trial pod. Then a second trial asks for a patch that breaks the
pod: the API server reports the broken label before it asks quotas and policies.
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
"""The annotation, or the broken label, that carries the answer."""
BREAK_LABEL: Final = "trimtab.dev/self-test-breaks"
"""Asks for an answer that breaks the pod."""
_BREAKS: Final = "!"
"""Prefix that no label value may have."""


class SelfTestOutcome(StrEnum):
    """Outcome of a self-test; the value is its name in metrics."""

    PASSED = "Passed"
    UNCHANGED = "Unchanged"
    """The pod came back as it was: we are not registered, not reachable or not trusted."""
    RIGHT_MISSING = "RightMissing"
    """We have no permission to try pods in our own namespace."""
    REFUSED = "Refused"
    """The API server refuses the pod; with failure policy Fail, the webhook itself may be why."""
    UNREACHABLE = "Unreachable"
    """The API server does not answer."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a self-test, and the message of the API server."""

    outcome: SelfTestOutcome
    detail: str = ""

    @property
    def has_passed(self) -> bool:
        """True if new pods get their size."""
        return self.outcome is SelfTestOutcome.PASSED


class SelfTest:
    """Tries the path of a new pod; a status lease calls it before each renewal."""

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
        """Run one test and report it; return True if a pod created now would get its patch."""
        result = await self.run()
        self._tell(result)
        return result.has_passed

    async def run(self) -> Result:
        """Run one test and return its result."""
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
        """Repeat the test with a pod that the patch breaks."""
        labels = {SELF_TEST_LABEL: word, BREAK_LABEL: "true"}
        try:
            await self._host.try_pod(self._namespace, labels)
        except ApiError as error:
            if _BREAKS + word in error.status.message:
                return Result(SelfTestOutcome.PASSED)
            raise
        return Result(SelfTestOutcome.UNCHANGED, "the trial pod came back without our patch")


def make_probe(namespace: str) -> Callable[[AdmissionRequest], Patch | None]:
    """Return a function that answers the trial pods of all copies in the namespace."""
    mark = SELF_TEST_LABEL.encode()

    def answer(request: AdmissionRequest) -> Patch | None:
        """Return the patch for a trial pod; None for any other request."""
        data = request.object
        if not request.is_dry_run or request.namespace != namespace or data is None:
            return None
        # The undecoded object is a view into the body of the review.
        if mark not in bytes(data):
            return None
        try:
            return answer_trial(pods.decode_pod(data))
        except DecodeError:
            return None

    return answer


def answer_trial(pod: Pod) -> Patch | None:
    """Return the patch that answers a trial pod; None for any other pod."""
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
    """True if a policy may have refused the pod; False if we or the server are at fault."""
    if isinstance(error, ForbiddenError):
        return error.right is None
    return not isinstance(error, TooManyRequestsError | UnauthorizedError | UnreachableError)
