"""Asks a webhook about one good pod again and again, from a process of its own.

    python probe.py PORT AUTHORITY REVIEW

Prints a line after the first answer, and how long all took once its standard input ends.
"""

import json
import select
import ssl
import sys
import time
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

PAUSE_SECONDS = 0.02
TIMEOUT_SECONDS = 5
"""That of the webhook's registration."""


def main(port: int, authority: str, review: str) -> None:
    """Ask until standard input ends."""
    body = Path(review).read_bytes()
    trust = ssl.create_default_context(cafile=authority)
    seconds, failed = [], 0
    connection = HTTPSConnection("127.0.0.1", port, context=trust, timeout=TIMEOUT_SECONDS)
    while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
        began = time.perf_counter()
        try:
            connection.request("POST", "/", body, {"Content-Type": "application/json"})
            is_good = b'"patch":' in connection.getresponse().read()
        except (OSError, HTTPException):
            is_good = False
            connection.close()
        failed += not is_good
        seconds.append(time.perf_counter() - began)
        if len(seconds) == 1:
            sys.stdout.write("asking\n")
            sys.stdout.flush()
    connection.close()
    found = sorted(1000 * each for each in seconds) or [0.0]
    sys.stdout.write(
        json.dumps(
            {
                "good_requests": len(seconds),
                "failed": failed,
                "p50_ms": found[len(found) // 2],
                "p99_ms": found[len(found) * 99 // 100],
                "max_ms": found[-1],
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
