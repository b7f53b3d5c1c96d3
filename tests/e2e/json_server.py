"""A small server on loopback that speaks JSON, for what an API server asks of others."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK

Json = dict[str, Any]
Answer = Callable[[str, bytes], Json | None]
"""What is told at a path, to a question with a body; None where nothing is."""


@contextmanager
def serving(plane: ControlPlane, answer: Answer) -> Iterator[int]:
    """The port of a server that shows the certificate of a control plane."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._tell(answer(self.path, b""))

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            self._tell(answer(self.path, asked))

        def _tell(self, found: Json | None) -> None:
            body = json.dumps(found or {"kind": "Status", "code": 404}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    issued = plane.certificates.server
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
