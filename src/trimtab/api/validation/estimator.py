"""Validation of the annotations that choose the estimator of an autoscaler.

Annotations are not checked by the API server, and a wrong one counts as none.
"""

from collections.abc import Iterator, Mapping

from trimtab.core.model import estimation
from trimtab.core.model.estimation import ESTIMATOR_ANNOTATION, OOM_PRICE_ANNOTATION, Estimator
from trimtab.core.model.validation import SettingsError


def annotation_warnings(annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each annotation that has no effect, because of its value."""
    chosen = annotations.get(ESTIMATOR_ANNOTATION)
    if chosen is not None and chosen not in {*Estimator}:
        yield (
            f"metadata.annotations[{ESTIMATOR_ANNOTATION}]: {chosen[:50]!r} is ignored:"
            f" it is none of {', '.join(Estimator)}"
        )
    price = annotations.get(OOM_PRICE_ANNOTATION)
    if price is not None and not _is_price(price):
        yield (
            f"metadata.annotations[{OOM_PRICE_ANNOTATION}]: {price[:50]!r} is ignored:"
            " it is not a number from 0 on"
        )


def _is_price(text: str) -> bool:
    try:
        estimation.parse_oom_price(text)
    except SettingsError:
        return False
    return True
