"""What share of the pods usually wants a change, so that a sudden surge stands out."""

import math
from datetime import timedelta
from typing import Final

USUAL_HALF_LIFE: Final = timedelta(hours=3)
"""After so long what was usual counts half.

A surge that lasts is news for some hours, not for ever: by then somebody saw it, or meant it.
"""


def remember_share(usual: float | None, share: float, *, passed: timedelta) -> float:
    """The usual share after another one was seen, so long after the one before."""
    if usual is None:
        return share
    weight = math.exp2(-max(passed, timedelta()) / USUAL_HALF_LIFE)
    return weight * usual + (1.0 - weight) * share
