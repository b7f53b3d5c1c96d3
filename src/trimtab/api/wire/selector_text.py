"""Label selectors written as text, as in `status.selector` of a Scale.

`app=web,tier in (front, back),!legacy`: a comma stands for "and".
"""

import re
from typing import Final

from trimtab.api.wire.codec import DecodeError
from trimtab.core.model import selector_validation
from trimtab.core.model.selector_validation import Expression
from trimtab.core.model.selectors import Operator, Selector

_WORD: Final = r"[^\s!=<>(),]+"
_REQUIREMENT: Final = re.compile(
    rf"""\s*(?:
        (?P<absent>!)\s*(?P<lacking>{_WORD})
      | (?P<key>{_WORD})
        (?: \s*(?P<sign>==?|!=)\s*(?P<value>{_WORD}|)
          | \s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\)
        )?
    )\s*(?:,(?=.)|\Z)""",
    re.VERBOSE,
)
_OPERATORS: Final = {
    "=": Operator.IN,
    "==": Operator.IN,
    "in": Operator.IN,
    "!=": Operator.NOT_IN,
    "notin": Operator.NOT_IN,
}


def decode_selector_text(text: str, path: str) -> Selector:
    """Return the selector in the text; raises DecodeError for anything else."""
    expressions: list[Expression] = []
    place = 0
    while place < len(text):
        found = _REQUIREMENT.match(text, place)
        if not found:
            raise DecodeError(path, f"{text!r} is not a selector from character {place} on")
        expressions.append(_convert(found))
        place = found.end()
    try:
        return selector_validation.build({}, expressions)
    except selector_validation.SelectorError as error:
        raise DecodeError(path, f"{text!r} is not a selector: {error}") from error


def _convert(found: re.Match[str]) -> Expression:
    if found["absent"]:
        return Expression(found["lacking"], Operator.DOES_NOT_EXIST)
    if found["sign"]:
        return Expression(found["key"], _OPERATORS[found["sign"]], (found["value"],))
    if found["word"]:
        listed = found["values"].strip()
        values = {value.strip() for value in listed.split(",")} if listed else ()
        return Expression(found["key"], _OPERATORS[found["word"]], tuple(sorted(values)))
    return Expression(found["key"], Operator.EXISTS)
