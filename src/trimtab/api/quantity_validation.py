"""Validation of quantities: what cannot be read is an error of its own field, not of the body."""

from typing import Final

import msgspec

from trimtab.api import field_errors
from trimtab.api.amounts import quantity_text
from trimtab.api.decoding import DecodeError
from trimtab.api.field_errors import FieldError
from trimtab.core import quantities
from trimtab.core.quantities import Quantity, QuantityError

NEGATIVE: Final = "must be greater than or equal to 0"
"""What is wrong with an amount below zero."""


def read_quantity(raw: msgspec.Raw, path: str) -> Quantity | FieldError:
    """The quantity of a field, or the error that says why it is none."""
    try:
        return quantities.parse(quantity_text(raw, path))
    except QuantityError as error:
        return field_errors.invalid(path, error.text, error.flaw)
    except DecodeError:
        shown = bytes(raw).decode(errors="replace")
        return field_errors.invalid(path, shown, "must be a quantity: a string or a number")
