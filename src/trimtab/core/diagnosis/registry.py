"""All checks there are: their names, what each asks, and which facts it needs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from trimtab.core.diagnosis.api_server import (
    ClockFacts,
    Definition,
    Rights,
    ServerFacts,
    check_clock,
    check_definitions,
    check_rights,
    check_server,
)
from trimtab.core.diagnosis.autoscalers import (
    AutoscalerFacts,
    check_conflicts,
    check_recommendations,
    check_targets,
)
from trimtab.core.diagnosis.bounds import Bounds, check_bounds, check_horizontal
from trimtab.core.diagnosis.components import (
    Installed,
    LeaseFacts,
    check_components,
    check_leases,
    check_other_installations,
)
from trimtab.core.diagnosis.findings import (
    Diagnosis,
    Finding,
    Unseen,
    conclude,
    seen,
    seen_both,
    unknown,
)
from trimtab.core.diagnosis.usage import HistoryFacts, UsageFacts, check_history, check_usage
from trimtab.core.diagnosis.webhook import (
    CertificateFacts,
    WebhookFacts,
    check_certificate,
    check_other_webhooks,
    check_webhook,
)
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.hpa import Horizontal


class Topic(StrEnum):
    """A group of facts that is fetched together; the value is its field in `ClusterFacts`."""

    SERVER = "server"
    CLOCK = "clock"
    RIGHTS = "rights"
    DEFINITIONS = "definitions"
    WEBHOOK = "webhook"
    CERTIFICATE = "certificate"
    USAGE = "usage"
    HISTORY = "history"
    LEASES = "leases"
    INSTALLED = "installed"
    AUTOSCALERS = "autoscalers"
    HORIZONTALS = "horizontals"
    BOUNDS = "bounds"


_IN_PLACE: Final = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)
_NOT_ASKED: Final = Unseen("not asked for")


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """All facts that were fetched; topics that no check needs are left out."""

    server: ServerFacts | Unseen = _NOT_ASKED
    clock: ClockFacts | Unseen = _NOT_ASKED
    rights: Sequence[Rights] | Unseen = _NOT_ASKED
    definitions: Sequence[Definition] | Unseen = _NOT_ASKED
    webhook: WebhookFacts | Unseen = _NOT_ASKED
    certificate: CertificateFacts | Unseen | None = None
    """None if no webhook is registered, which another check reports."""
    usage: UsageFacts | Unseen = _NOT_ASKED
    history: HistoryFacts | Unseen | None = None
    """None if no Prometheus was named."""
    leases: LeaseFacts | Unseen = _NOT_ASKED
    installed: Sequence[Installed] | Unseen = _NOT_ASKED
    autoscalers: AutoscalerFacts | Unseen = _NOT_ASKED
    horizontals: Sequence[Horizontal] | Unseen = _NOT_ASKED
    bounds: Bounds | Unseen = _NOT_ASKED


_Find: TypeAlias = Callable[[ClusterFacts], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One thing that can be asked of a cluster."""

    name: str
    asks: str
    """Question that it answers, for users."""
    well: str
    """Text of the finding if there is no other."""
    topics: frozenset[Topic]
    find: _Find


def _server(facts: ClusterFacts) -> Iterator[Finding]:
    known = facts.autoscalers
    governed = () if isinstance(known, Unseen) else known.governed
    names = [one.place for one in governed if one.autoscaler.mode in _IN_PLACE]
    yield from seen(facts.server, lambda server: check_server(server, names))


def _certificate(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.certificate is None:
        yield unknown(Unseen("no webhook is registered, so there is no certificate to look at"))
    else:
        yield from seen(facts.certificate, check_certificate)


CHECKS: Final = (
    DoctorCheck(
        "server",
        "Does the API server answer, and can it resize pods in place?",
        "the API server answers",
        frozenset({Topic.SERVER, Topic.AUTOSCALERS}),
        _server,
    ),
    DoctorCheck(
        "clock",
        "Do the clocks of this machine and of the API server agree?",
        "the clocks of this machine and of the API server agree",
        frozenset({Topic.CLOCK}),
        lambda facts: seen(facts.clock, check_clock),
    ),
    DoctorCheck(
        "rights",
        "May you look at everything; may the components do their work (--as-components)?",
        "no right is missing",
        frozenset({Topic.RIGHTS}),
        lambda facts: seen(facts.rights, check_rights),
    ),
    DoctorCheck(
        "crds",
        "Are the CustomResourceDefinitions there, served, and do they know every field?",
        "both CustomResourceDefinitions are there and know every field",
        frozenset({Topic.DEFINITIONS}),
        lambda facts: seen(facts.definitions, check_definitions),
    ),
    DoctorCheck(
        "components",
        "Do our components run, and run well?",
        "all components run",
        frozenset({Topic.INSTALLED}),
        lambda facts: seen(facts.installed, check_components),
    ),
    DoctorCheck(
        "leases",
        "Who leads, and does the admission controller say that new pods get their size?",
        "all leases are held and renewed",
        frozenset({Topic.LEASES}),
        lambda facts: seen(facts.leases, check_leases),
    ),
    DoctorCheck(
        "other-installation",
        "Does another vertical autoscaler work beside ours?",
        "no other vertical autoscaler runs here",
        frozenset({Topic.INSTALLED, Topic.LEASES}),
        lambda facts: check_other_installations(facts.installed, facts.leases),
    ),
    DoctorCheck(
        "webhook",
        "Is the webhook registered, and does a trial pod get our patch?",
        "the webhook is registered",
        frozenset({Topic.WEBHOOK}),
        lambda facts: seen(facts.webhook, check_webhook),
    ),
    DoctorCheck(
        "certificate",
        "Does the API server trust the webhook's certificate, and for how long?",
        "the certificate is trusted",
        frozenset({Topic.CERTIFICATE}),
        _certificate,
    ),
    DoctorCheck(
        "other-webhooks",
        "Does any other webhook change pods after ours?",
        "no other webhook changes pods after ours",
        frozenset({Topic.WEBHOOK}),
        lambda facts: seen(facts.webhook, check_other_webhooks),
    ),
    DoctorCheck(
        "metrics",
        "Does the metrics API have fresh readings of all running pods?",
        "the metrics API has fresh readings of all running pods",
        frozenset({Topic.USAGE}),
        lambda facts: seen(facts.usage, check_usage),
    ),
    DoctorCheck(
        "history",
        "Does Prometheus have the series and labels that history needs (--prometheus-address)?",
        "Prometheus has what history needs",
        frozenset({Topic.HISTORY}),
        lambda facts: seen(facts.history, check_history),
    ),
    DoctorCheck(
        "conflicts",
        "Do two autoscalers match the same pods?",
        "no two autoscalers match the same pod",
        frozenset({Topic.AUTOSCALERS}),
        lambda facts: seen(facts.autoscalers, check_conflicts),
    ),
    DoctorCheck(
        "targets",
        "Does each autoscaler have a target, and pods?",
        "every autoscaler has a target with pods",
        frozenset({Topic.AUTOSCALERS}),
        lambda facts: seen(facts.autoscalers, check_targets),
    ),
    DoctorCheck(
        "hpa",
        "Does a HorizontalPodAutoscaler scale the same workload on the same resource?",
        "no HorizontalPodAutoscaler scales on what an autoscaler changes",
        frozenset({Topic.AUTOSCALERS, Topic.HORIZONTALS}),
        lambda facts: seen_both(
            facts.autoscalers,
            facts.horizontals,
            lambda known, others: check_horizontal(known.governed, others),
        ),
    ),
    DoctorCheck(
        "limits",
        "Do limit ranges and quotas let recommendations become true?",
        "no limit range and no quota is in the way",
        frozenset({Topic.AUTOSCALERS, Topic.BOUNDS}),
        lambda facts: seen_both(
            facts.autoscalers,
            facts.bounds,
            lambda known, bounds: check_bounds(known.governed, bounds),
        ),
    ),
    DoctorCheck(
        "recommendations",
        "Does each autoscaler have a recommendation, and if not, why?",
        "every autoscaler has a recommendation",
        frozenset({Topic.AUTOSCALERS}),
        lambda facts: seen(facts.autoscalers, check_recommendations),
    ),
)
"""In the order in which one would look: from the ground up."""


def diagnose(checks: Iterable[DoctorCheck], facts: ClusterFacts) -> list[Diagnosis]:
    """Run the checks and return the diagnosis of each."""
    return [conclude(check.name, check.find(facts), check.well) for check in checks]
