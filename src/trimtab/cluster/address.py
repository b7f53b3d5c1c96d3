"""Addresses of HTTP servers and proxies, as kubeconfigs and flags give them."""

import base64
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a server or a proxy."""

    host: str
    port: int
    is_secure: bool
    path: str = ""
    """Prefix of the path of each request."""
    authorization: str = ""
    """Value of the Authorization header for the name and the password in the address."""

    @property
    def authority(self) -> str:
        """The host and the port, as a request names them."""
        usual = _PORTS["https" if self.is_secure else "http"]
        return self._shown_host if self.port == usual else self.endpoint

    @property
    def endpoint(self) -> str:
        """The host and the port, which is always named."""
        return f"{self._shown_host}:{self.port}"

    def __str__(self) -> str:
        """Return the address without the name and the password that it may hold."""
        return f"http{'s' if self.is_secure else ''}://{self.authority}{self.path}"

    @property
    def _shown_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_address(text: str) -> Address:
    """Parse an http or https address; raise a ValueError for any other text."""
    url = urlsplit(text)
    if url.scheme not in _PORTS or not url.hostname or url.query or url.fragment:
        raise ValueError(f"expected an https:// address, got {text!r}")
    host = url.hostname if url.hostname.isascii() else url.hostname.encode("idna").decode()
    port = _PORTS[url.scheme] if url.port is None else url.port
    is_secure = url.scheme == "https"
    return Address(host, port, is_secure, url.path.rstrip("/"), _authorization(url))


def _authorization(url: SplitResult) -> str:
    if not url.username:
        return ""
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"
