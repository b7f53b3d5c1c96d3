"""Command lines of the programs: each listens on loopback, where it is told to."""

from pathlib import Path

import pytest

from rig import flags
from rig.certificates import Certificates, Issued

MADE = Certificates(
    authority=Path("ca"),
    server=Issued(Path("crt"), Path("key")),
    account_key=Path("accounts.key"),
    account_public_key=Path("accounts.pub"),
    kubelet_client=Issued(Path("client.crt"), Path("client.key")),
    proxy=Issued(Path("proxy.crt"), Path("proxy.key")),
)
CONFIG = Path("kubeconfig")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            flags.for_apiserver(MADE, Path("tokens"), port=6443, etcd_port=2379), id="API server"
        ),
        pytest.param(flags.for_controllers(MADE, CONFIG, 6443), id="controllers"),
        pytest.param(flags.for_scheduler(MADE, CONFIG, 6443), id="scheduler"),
        pytest.param(flags.for_metrics_server(MADE, CONFIG, 6443), id="metrics-server"),
    ],
)
def test_a_component_serves_with_our_certificate_on_loopback(given: list[str]) -> None:
    assert "--bind-address=127.0.0.1" in given
    assert "--secure-port=6443" in given
    assert "--tls-cert-file=crt" in given


def test_etcd_and_kwok_listen_on_loopback_too() -> None:
    urls = [each for each in flags.for_etcd(1, 2) if "-urls=" in each]

    assert all("=http://127.0.0.1:" in url for url in urls)
    assert "--server-address=127.0.0.1:3" in flags.for_kwok(MADE, CONFIG, Path("kwok.yaml"), 3)


def test_fake_nodes_say_that_their_kubelet_is_where_kwok_listens() -> None:
    given = flags.for_kwok(MADE, CONFIG, Path("kwok.yaml"), 3)

    assert "--node-ip=127.0.0.1" in given
    assert "--node-port=3" in given
    assert "--tls-cert-file=crt" in given


def test_no_component_waits_for_a_lease_that_nobody_contests() -> None:
    assert "--leader-elect=false" in flags.for_controllers(MADE, CONFIG, 1)
    assert "--leader-elect=false" in flags.for_scheduler(MADE, CONFIG, 1)


def test_the_api_server_and_kubelets_know_each_other_by_certificates() -> None:
    given = flags.for_apiserver(MADE, Path("tokens"), port=6443, etcd_port=2379)

    assert "--client-ca-file=ca" in given
    assert "--kubelet-certificate-authority=ca" in given
    assert "--kubelet-client-certificate=client.crt" in given
    assert "--kubelet-preferred-address-types=InternalIP" in given


def test_only_the_api_server_may_speak_for_others_behind_it() -> None:
    given = flags.for_apiserver(MADE, Path("tokens"), port=6443, etcd_port=2379)

    assert "--requestheader-client-ca-file=ca" in given
    assert "--requestheader-allowed-names=front-proxy-client" in given
    assert "--proxy-client-cert-file=proxy.crt" in given


def test_metrics_server_shows_itself_to_kubelets_and_checks_them() -> None:
    given = flags.for_metrics_server(MADE, CONFIG, 6443)

    assert "--kubelet-client-certificate=client.crt" in given
    assert "--kubelet-certificate-authority=ca" in given
