"""Write a certificate that no authority has signed, and its key: `python -m` this module.

Callers of metrics and pages encrypt with it; it does not prove the identity of the component.
"""

import socket
import sys
from datetime import UTC, datetime, timedelta
from typing import Final

from trimtab.admission.webhook import certificates

_LIFE: Final = timedelta(days=3650)
"""Validity, longer than any process runs."""


def main() -> int:
    """Write both as PEM, with an empty line between them."""
    now = datetime.now(UTC)
    authority, signing_key = certificates.make_authority(now, _LIFE)
    hosts = frozenset({socket.gethostname() or "localhost", "localhost"})
    made = certificates.make_certificate(authority, signing_key, hosts, now, _LIFE)
    sys.stdout.write(f"{made.certificate.strip()}\n\n{made.key.strip()}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
