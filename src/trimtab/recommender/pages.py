"""The explain page of the recommender: how the numbers of an autoscaler were computed."""

from collections.abc import Iterator, Mapping

from trimtab.api.explain import recommendation, signals
from trimtab.api.explain.recommendation import NumbersPage, Origin
from trimtab.api.wire import codec
from trimtab.core.explain import recommendation as explanation
from trimtab.core.explain.recommendation import ContainerWorking
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.recommendation import PublishedRecommendation
from trimtab.core.recommendation import relearning
from trimtab.core.usage import aggregates
from trimtab.recommender.publish import list_kept
from trimtab.recommender.settings import RecommenderSettings
from trimtab.recommender.state import AutoscalerState, RecommenderState


def explain(
    state: RecommenderState, name: AutoscalerName, settings: RecommenderSettings, origin: Origin
) -> NumbersPage | None:
    """Return the working behind an autoscaler's numbers; None if the autoscaler is unknown."""
    subject = state.subjects.get(name)
    if subject is None:
        return None
    workings = explanation.explain_containers(
        state.usage, name, settings.recommendations, state.publications.held
    )
    kept = list_kept(state, subject, settings, origin.at)
    if kept:
        most = settings.recommendations.max_allowed
        kept_up = relearning.keep_up(_recommendation(workings), subject.autoscaler, kept, most)
        workings = explanation.with_kept(workings, kept_up.containers, kept)
    origin = Origin(
        origin.source,
        origin.at,
        origin.saved_at,
        has_default_settings=origin.has_default_settings,
        remarks=(*origin.remarks, *_remarks(subject, settings), *_signals(state, name)),
    )
    return recommendation.show_numbers(
        subject.autoscaler, workings, settings.recommendations, origin
    )


def show_page(
    state: RecommenderState,
    settings: RecommenderSettings,
    query: Mapping[str, str],
    origin: Origin,
) -> bytes:
    """Return the page of `?namespace=` and `?autoscaler=` as JSON; `null` if it is unknown."""
    name = AutoscalerName(query.get("namespace", ""), query.get("autoscaler", ""))
    return codec.encode(explain(state, name, settings, origin))


def _recommendation(workings: tuple[ContainerWorking, ...]) -> PublishedRecommendation:
    found = [each.recommendation() for each in workings]
    return PublishedRecommendation(tuple(each for each in found if each is not None))


def _signals(state: RecommenderState, name: AutoscalerName) -> Iterator[str]:
    """Yield the signals of pressure that raised the present targets."""
    for each in state.publications.held.last_signals(name):
        until = aggregates.from_seconds(each.until)
        yield signals.tell_signal(each.container, each.resource, each.signal, each.pod, until)


def _remarks(subject: AutoscalerState, settings: RecommenderSettings) -> Iterator[str]:
    """Yield further facts that affect what is published."""
    if not subject.is_ours:
        others = ", ".join(subject.autoscaler.recommenders) or "default"
        yield f"published by another recommender: {others}"
    if subject.autoscaler.selector is not None:
        yield "of the target's pods only those count that the autoscaler's selector matches"
    if subject.unsupported is not None:
        wrong = subject.unsupported
        yield f"what was published before stays: {wrong.reason} {wrong.detail}".rstrip()
    if subject.history_missed_at is not None:
        yield "history from elsewhere is outstanding: nothing falls below what was published"
    if subject.is_ours:
        publishing = settings.publishing
        yield (
            f"a bound is published once it has moved by {100 * publishing.bound_move_fraction:.3g}"
            f" % past a request, or by {100 * publishing.far_move_fraction:.3g} %,"
            f" or after {int(publishing.patience.total_seconds() // 60)} min; a target at once"
        )
