"""The errors that a command raises when it was called rightly and cannot go on."""


class FailedError(Exception):
    """Something outside is not as it has to be; the message is one line for whoever reads it."""


class NoClusterError(FailedError):
    """There is no cluster at hand, or none that answers."""
