"""The port on which the API server asks: bound before anything else, so that a mistake shows."""

import socket
from contextlib import suppress

from trimtab.cli.failures import FailedError
from trimtab.cli.usage import UsageError

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
    except OSError as error:
        where = f"{host}:{port}"
        raise FailedError(f"cannot listen on {where}: {error.strerror or error}") from error
