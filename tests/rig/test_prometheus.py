"""Prometheus of the rig: what it is told to scrape, and what its answers are taken for."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from rig import prometheus
from rig.certificates import Certificates, Issued
from rig.processes import Process
from rig.prometheus import Prometheus, QueryError, Series

MADE = Certificates(
    authority=Path("ca"),
    server=Issued(Path("crt"), Path("key")),
    account_key=Path("accounts.key"),
    account_public_key=Path("accounts.pub"),
    kubelet_client=Issued(Path("client.crt"), Path("client.key")),
    proxy=Issued(Path("proxy.crt"), Path("proxy.key")),
)
PLAIN = prometheus.component("recommender", 8942)
LABELS = {"job": "recommender", "instance": "127.0.0.1:8942"}
SECURE = prometheus.cadvisor("10.99.0.1:10250")


class Answers(BaseHTTPRequestHandler):
    """Plays the one path of Prometheus that is asked: `up`, and nothing that makes sense."""

    def do_GET(self) -> None:
        (expression,) = parse_qs(urlsplit(self.path).query)["query"]
        result = [{"metric": LABELS, "value": [1.5, "0.25"]}]
        self.send_response(200 if expression == "up" else 400)
        self.end_headers()
        self.wfile.write(json.dumps({"data": {"result": result}}).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Prometheus]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever).start()
        process = Process(Path("/bin/true"), [], tmp_path)
        yield Prometheus(server.server_port, tmp_path, process)
        process.end()
        server.shutdown()


def read_targets(directory: Path, name: str) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(
        (directory / f"{name}.json").read_text(encoding="utf-8")
    )
    return listed


def test_targets_are_listed_by_whether_they_need_credentials(tmp_path: Path) -> None:
    prometheus._write_targets(tmp_path, [PLAIN, SECURE])

    assert read_targets(tmp_path, "plain") == [
        {
            "targets": ["127.0.0.1:8942"],
            "labels": {"job": "recommender", "__metrics_path__": "/metrics"},
        }
    ]
    assert read_targets(tmp_path, "secure") == [
        {
            "targets": ["10.99.0.1:10250"],
            "labels": {"job": "kubernetes-cadvisor", "__metrics_path__": "/metrics/cadvisor"},
        }
    ]


def test_only_secure_targets_are_shown_our_certificate(tmp_path: Path) -> None:
    plain, secure = prometheus._settings(tmp_path, MADE)["scrape_configs"]

    assert "tls_config" not in plain
    assert secure["scheme"] == "https"
    assert secure["tls_config"] == {
        "ca_file": "ca",
        "cert_file": "client.crt",
        "key_file": "client.key",
    }


def test_an_answer_is_a_value_for_each_series(asked: Prometheus) -> None:
    assert asked.query("up") == [Series(LABELS, 0.25)]


def test_a_query_without_sense_is_named(asked: Prometheus) -> None:
    with pytest.raises(QueryError, match=r"^up\(: "):
        asked.query("up(")


def test_further_targets_are_scraped_for_as_long_as_a_block_lasts(asked: Prometheus) -> None:
    with asked.scraping(PLAIN):
        meanwhile = read_targets(asked.directory, "plain")

    assert [each["targets"] for each in meanwhile] == [["127.0.0.1:8942"]]
    assert read_targets(asked.directory, "plain") == []
    assert asked.targets == []
