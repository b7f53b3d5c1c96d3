"""The webhook's part of the page of benchmarks: what is told of it, and in which words."""

from typing import Final

from bench.sections import Section
from bench.tables import Measure, Table, Unit

GOVERNED: Final = "with an autoscaler"
STRANGE: Final = "others"
WORST: Final = "worst allowed"
COLD: Final = "all in random order, cold"
WARM: Final = "all in random order, warm"
STARTED: Final = "process"
FULL: Final = "process that was asked about all"
"""What the groups of the webhook's entries are: kinds of pods, and the process as such."""
_HALF: Final = "Half of the answers"
_SMALL: Final = "Start and memory of small clusters"
REQUESTS: Final = Table(
    (
        Measure("cpu", "CPU per 1 000 requests", Unit.SECONDS),
        Measure("seconds", "Requests per second", Unit.PER_SECOND, is_judged=False),
        Measure("p50", "Half are answered within", Unit.MILLISECONDS, is_judged=False, bound=_HALF),
        Measure("p99", "99 % are answered within", Unit.MILLISECONDS, is_judged=False),
    ),
    "Pods",
    (GOVERNED, STRANGE, WORST, COLD, WARM),
)
STARTING: Final = Table(
    (
        Measure("seconds", "Start: first patch after", Unit.SECONDS, is_judged=False, bound=_SMALL),
        Measure("cpu", "Start: CPU until then", Unit.SECONDS, bound=_SMALL),
        Measure("resident", "Resident memory", Unit.MEBIBYTES, bound=_SMALL),
        Measure("peak", "The most memory", Unit.MEBIBYTES, bound=_SMALL),
    ),
    "Of the",
    (STARTED, FULL),
)
SECTION: Final = Section(
    "admission",
    "The webhook",
    head="""\
Both as processes on one real API server, with the same objects, certificates and default flags, but
that both log at `--v=1`: neither writes a line per request.
Reviews of new pods come over TLS on eight connections that stay open, by HTTP/1.1 as API servers
speak it to webhooks, as fast as they are answered; the program that sends them uses the same cores.
Pods *with an autoscaler* get a patch for two containers; *others* belong to a Deployment, too, but
no autoscaler is for it. The *worst allowed* pod has as many containers as the webhook sizes, each
with a policy and a boost of its own, and is another one each time. Pods of at most a hundred
Deployments come in turn, again and again, as they do when Deployments grow. Each kind is asked
about 500 times before 4 000 requests are measured. From 1 000 autoscalers on, *all in random order*
are pods of every Deployment in four sizes each: *cold* none of them came before, *warm* each came
once; ours finds some ten thousand answers again, and the original keeps none. Times are those of a
busy machine; of requests per second the ratio is that of the time which they take, so that more
than 1 is ours, as everywhere.
""",
    tables=(REQUESTS, STARTING),
    bounds="""\
What bounds them, by profiles (cProfile, 100 autoscalers, pods with an autoscaler):

- *CPU per request.* Of a pod without an autoscaler a third is the review itself, of one with an
  autoscaler half: reading the review and the pod, finding owners and autoscaler. A pod is read no
  further than it takes to see that the last one of its autoscaler got the same; the patch is
  encoded already then. The rest is TLS, HTTP and the event loop.
- *All in random order.* A pod that is like none before is worked out: a review that costs twice one
  whose answer is found again, in 210 calls of Python functions instead of 91, of which none stands
  out. Two thirds of its CPU are the interpreter, an eighth the kernel, the rest JSON and TLS. Once
  each pod has come, the aim of 0.6 of the original's CPU is reached with 1 000 autoscalers: in
  three rounds, on a machine with many times more work than cores, ours needed 0.5 to 0.6 of it.
  For pods that are like none before it is not: ours needed 0.9 to 1.2 of it. Pods and containers
  as structs took away a tenth of the instructions of such a review. Beyond that only compiled
  code would help much: one pass over the JSON instead of two would save about a fiftieth, and the
  Python of Debian, as in the image, needs up to a tenth less than the one that was measured, which
  was built without profile-guided optimization. With 10 000 the same calls take a third longer,
  presumably since what they touch is in no cache of the processor. Answers for some ten thousand
  autoscalers are found again, within 48 MiB. Templates of one autoscaler that get the same share
  it.
- *Half of the answers.* Eight requests are under way at any time, so the mean wait is eight times
  what a request takes, which is less of ours. Ours answers in turn, and nearly all wait for about
  as long; of the original's answers half come sooner, and the last hundredth several times later.
  Where both were sent 200 requests a second, of pods that are like none before, ours took 0.68 ms
  and the original 0.58 ms, and both needed the same CPU: most of it goes into waking up then.
- *Start and memory of small clusters.* Imports come first: 0.2 s of CPU and 34 MiB before the
  first object is listed. The interpreter with its event loop and TLS is a third of the time and 21
  of the MiB, our own modules half of the time and 5 of them, the rest is decoding, logs and
  metrics. A program that was compiled has nothing of the kind to do.
""",
)
