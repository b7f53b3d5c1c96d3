"""Proxies that the environment names: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as kubectl reads them.

The names may also be in small letters; the large ones win. Loopback needs no proxy.
"""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from trimtab.cluster import address
from trimtab.cluster.address import Address
from trimtab.cluster.errors import CredentialsError


def find_proxy(server: str, environment: Mapping[str, str]) -> str:
    """Return the address of the proxy for the server, or an empty text if none is needed."""
    wanted = address.parse_address(server)
    variable, proxy = _read(environment, "HTTPS_PROXY" if wanted.is_secure else "HTTP_PROXY")
    if not proxy or _is_exempt(wanted, _read(environment, "NO_PROXY")[1]):
        return ""
    # A host and port alone is an HTTP proxy.
    found = proxy if "://" in proxy else f"http://{proxy}"
    try:
        address.parse_address(found)
    except ValueError as error:
        # The text may hold a password, so the error leaves it out.
        problem = "no http or https address of a proxy"
        raise CredentialsError("environment", variable, problem) from error
    return found


def _read(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the variable that counts, and its value."""
    for each in (name, name.lower()):
        if value := environment.get(each, "").strip():
            return each, value
    return name, ""


def _is_exempt(server: Address, exempt: str) -> bool:
    """Return True if NO_PROXY names the server, or the server is this machine."""
    host = server.host.lower().rstrip(".")
    place = _parse_ip(host)
    if host == "localhost" or (place is not None and place.is_loopback):
        return True
    return any(_matches(entry, host, place, server.port) for entry in _entries(exempt))


def _entries(exempt: str) -> Iterator[str]:
    return filter(None, (entry.strip().lower() for entry in exempt.split(",")))


def _matches(entry: str, host: str, place: IPv4Address | IPv6Address | None, port: int) -> bool:
    """Return True if the entry is `*`, a network, an address or a domain that holds the host."""
    if entry == "*":
        return True
    if "/" in entry:
        return place is not None and _is_in_network(place, entry)
    name, wanted_port = _split_port(entry)
    if wanted_port and wanted_port != str(port):
        return False
    if (named := _parse_ip(name)) is not None:
        return named == place
    # `.example.com` and `*.example.com` are the names below, `example.com` is itself as well.
    domain = name.removeprefix("*")
    return host.endswith(domain if domain.startswith(".") else f".{domain}") or host == domain


def _is_in_network(place: IPv4Address | IPv6Address, text: str) -> bool:
    try:
        return place in ip_network(text, strict=False)
    except ValueError:
        return False


def _split_port(entry: str) -> tuple[str, str]:
    """Split the port off an entry; colons of an IPv6 address separate none."""
    name, _, port = entry.rpartition(":")
    if name and port.isdigit() and ("]" in name or ":" not in name):
        return name.strip("[]"), port
    return entry.strip("[]"), ""


def _parse_ip(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
