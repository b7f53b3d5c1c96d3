"""The port on which the API server asks: bound before anything else, so that a mistake shows."""

import socket
from contextlib import suppress

from trimtab.cli.failures import FailedError
from trimtab.cli.usage import UsageError
from trimtab.cluster.errors import tell

_PORTS = range(1 << 16)


def bind(host: str, port: int) -> socket.socket:
    """A socket of that address and port, of all addresses if there is none; nobody listens yet."""
    if port not in _PORTS:
        raise UsageError(f"--port: {port} is not a port")
    try:
        if not host and socket.has_dualstack_ipv6():
            with suppress(OSError):
                # A machine may know IPv6, and have none.
                return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family)
    except (OSError, UnicodeError, TypeError) as error:
        raise blame(f"{host}:{port}", error) from error


def blame(address: str, error: Exception) -> FailedError:
    """Return the error of an address on which this process cannot listen, in words for people."""
    # Python itself refuses some names; what the resolver says has numbers below 0.
    is_of_name = not isinstance(error, OSError) or (error.errno or 0) < 0
    problem = "the name of the host cannot be found" if is_of_name else tell(error)
    return FailedError(f"cannot listen on {address}: {problem}")
