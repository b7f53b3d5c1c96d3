"""Long measurements say how far they are: ten silent minutes look like a hang."""

import sys


def say(text: str) -> None:
    """Tell whoever waits."""
    sys.stderr.write(f"bench: {text}\n")
    sys.stderr.flush()
