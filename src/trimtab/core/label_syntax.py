"""What Kubernetes allows as a label's key and value, and the words in which it refuses others.

Clients see these sentences from the API server too, so they are kept to the letter.
"""

import re
from typing import Final

_MAX_NAME_BYTES: Final = 63
_MAX_PREFIX_BYTES: Final = 253

_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_NAME})?"
_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_ALPHABET: Final = (
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_BAD_NAME: Final = (
    f"must {_ALPHABET} (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_NAME}')"
)
_BAD_KEY: Final = (
    f"a valid label key {_BAD_NAME} with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
_BAD_VALUE: Final = (
    f"a valid label must be an empty string or {_ALPHABET} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_BAD_PREFIX: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', "
    f"regex used for validation is '{_PREFIX}')"
)
_EMPTY: Final = "must be non-empty"


def key_flaws(key: str) -> list[str]:
    """What is wrong with a label key, `name` or `prefix/name`; nothing for a good one."""
    *prefixes, name = key.split("/")
    if len(prefixes) > 1:
        return [_BAD_KEY]
    prefix_flaws = [f"prefix part {flaw}" for flaw in _prefix_flaws(prefixes)]
    return prefix_flaws + [f"name part {flaw}" for flaw in _name_flaws(name)]


def value_flaws(value: str) -> list[str]:
    """What is wrong with a label value; nothing for a good one."""
    flaws = _length_flaws(value, _MAX_NAME_BYTES)
    return flaws if re.fullmatch(_VALUE, value) else [*flaws, _BAD_VALUE]


def _prefix_flaws(prefixes: list[str]) -> list[str]:
    if prefixes == [""]:
        return [_EMPTY]
    return [flaw for prefix in prefixes for flaw in subdomain_flaws(prefix)]


def subdomain_flaws(text: str) -> list[str]:
    """List what is wrong with a DNS subdomain, as most objects need one for a name."""
    flaws = _length_flaws(text, _MAX_PREFIX_BYTES)
    return flaws if re.fullmatch(_PREFIX, text) else [*flaws, _BAD_PREFIX]


def _name_flaws(name: str) -> list[str]:
    flaws = _length_flaws(name, _MAX_NAME_BYTES) if name else [_EMPTY]
    return flaws if re.fullmatch(_NAME, name) else [*flaws, _BAD_NAME]


def _length_flaws(text: str, limit: int) -> list[str]:
    too_long = len(text.encode(errors="surrogatepass")) > limit
    return [f"must be no more than {limit} bytes"] if too_long else []
