"""Handshakes in memory: whom a client that believes a bundle meets at a server's context."""

import ssl

_ANY_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME: tests have times of their own."""


def is_believed(context: ssl.SSLContext, bundle: str, host: str) -> bool:
    """Whether a client that believes the bundle would talk to the server by that name."""
    client = ssl.create_default_context(cadata=bundle)
    client.verify_flags |= _ANY_TIME
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=host)
    answering = context.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(4):
            for side in (asking, answering):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLCertVerificationError:
        return False
    return asking.getpeercert() is not None
