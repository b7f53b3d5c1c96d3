"""Proxies that the environment names, beside a kubeconfig and in a pod."""

from pathlib import Path

import pytest
from support.fakes.clocks import StillClock
from support.makers.certificates import an_authority
from support.makers.kubeconfigs import a_kubeconfig, ask, encoded, serving_tls
from support.servers.connect_proxy import ConnectProxy

from trimtab.cluster.auth.connection import find_connection
from trimtab.cluster.auth.proxies import find_proxy
from trimtab.cluster.errors import CredentialsError

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        pytest.param("https://api:6443", {}, "", id="no variable"),
        pytest.param("https://api:6443", {"HTTPS_PROXY": PROXY}, PROXY, id="a server with TLS"),
        pytest.param("https://api", {"https_proxy": PROXY}, PROXY, id="in small letters"),
        pytest.param(
            "https://api", {"HTTPS_PROXY": PROXY, "https_proxy": "b"}, PROXY, id="large ones win"
        ),
        pytest.param("https://api", {"HTTP_PROXY": PROXY}, "", id="only for plain servers"),
        pytest.param("http://api", {"HTTP_PROXY": PROXY}, PROXY, id="a plain server"),
        pytest.param("https://api", {"HTTPS_PROXY": "proxy:3128"}, PROXY, id="without a scheme"),
        pytest.param("https://localhost:6443", {"HTTPS_PROXY": PROXY}, "", id="this machine"),
        pytest.param("https://127.1.2.3:6443", {"HTTPS_PROXY": PROXY}, "", id="loopback"),
        pytest.param("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, "", id="loopback of IPv6"),
    ],
)
def test_the_environment_names_the_proxy(
    server: str, environment: dict[str, str], proxy: str
) -> None:
    assert find_proxy(server, environment) == proxy


@pytest.mark.parametrize(
    ("exempt", "server", "is_exempt"),
    [
        pytest.param("*", "https://api", True, id="everything"),
        pytest.param("other, api.test", "https://api.test", True, id="one of several"),
        pytest.param("API.test", "https://api.TEST", True, id="in any case"),
        pytest.param("api.test", "https://a.api.test", True, id="a name below"),
        pytest.param("api.test", "https://an-api.test", False, id="only the same end"),
        pytest.param(".api.test", "https://a.api.test", True, id="names below alone"),
        pytest.param(".api.test", "https://api.test", False, id="names below alone, not itself"),
        pytest.param("*.api.test", "https://a.api.test", True, id="a star"),
        pytest.param("*.api.test", "https://api.test", False, id="a star, not itself"),
        pytest.param("api.test:6443", "https://api.test:6443", True, id="a port"),
        pytest.param("api.test:6443", "https://api.test", False, id="another port"),
        pytest.param("10.0.0.0/8", "https://10.96.0.1:443", True, id="a network"),
        pytest.param("10.0.0.0/8", "https://11.0.0.1", False, id="outside of the network"),
        pytest.param("10.0.0.0/8", "https://api.test", False, id="a name is in no network"),
        pytest.param("10.96.0.1", "https://10.96.0.1", True, id="an address"),
        pytest.param("10.96.0.1:443", "https://10.96.0.1", True, id="an address and a port"),
        pytest.param("fd00::1", "https://[fd00::1]", True, id="IPv6"),
        pytest.param("[fd00::1]:6443", "https://[fd00::1]:6443", True, id="IPv6 and a port"),
        pytest.param("fd00::/8", "https://[fd00::1]", True, id="a network of IPv6"),
        pytest.param(" , ,10.0.0.0/x", "https://10.96.0.1", False, id="nothing that counts"),
    ],
)
def test_servers_that_no_proxy_names_are_reached_directly(
    exempt: str, server: str, *, is_exempt: bool
) -> None:
    found = find_proxy(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": exempt})

    assert found == ("" if is_exempt else PROXY)


def test_a_proxy_of_another_kind_is_refused_without_its_password() -> None:
    with pytest.raises(CredentialsError, match="https_proxy") as caught:
        find_proxy("https://api", {"https_proxy": "socks5://me:secret@proxy"})

    assert "secret" not in str(caught.value)


def a_cluster(folder: Path, server: str, authority: str, **fields: object) -> Path:
    data = {"certificate-authority-data": encoded(authority)}
    return a_kubeconfig(folder, cluster={"server": server, **data, **fields})


async def test_the_api_server_is_asked_through_the_proxy_of_the_environment(tmp_path: Path) -> None:
    authority = an_authority()
    proxy = ConnectProxy({"api.test": "127.0.0.1"})
    async with serving_tls(authority, tmp_path) as url, proxy.listening() as place:
        far = url.replace("127.0.0.1", "api.test")
        # The certificate is for the address that the proxy leads to.
        file = a_cluster(tmp_path, far, authority.certificate, **{"tls-server-name": "127.0.0.1"})
        connection = find_connection(
            str(file), environment={"HTTPS_PROXY": place}, clock=StillClock()
        )

        assert await ask(connection) == "nobody"

    assert [head.split()[:2] for head in proxy.heads] == [
        [b"CONNECT", far.removeprefix("https://").encode()]
    ]


def test_the_proxy_of_a_kubeconfig_wins_over_the_environment(tmp_path: Path) -> None:
    file = a_kubeconfig(tmp_path, cluster={"server": "http://api", "proxy-url": "http://own"})

    connection = find_connection(
        str(file), environment={"HTTP_PROXY": PROXY, "NO_PROXY": "*"}, clock=StillClock()
    )

    assert connection.proxy == "http://own"


@pytest.mark.parametrize(
    ("exempt", "proxy"),
    [pytest.param("10.96.0.0/12", "", id="exempt"), pytest.param("", PROXY, id="not exempt")],
)
def test_a_pod_asks_through_the_proxy_of_its_environment(
    tmp_path: Path, exempt: str, proxy: str
) -> None:
    for name, text in (
        ("token", "secret"),
        ("namespace", "shop"),
        ("ca.crt", an_authority().certificate),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    environment = {
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "HTTPS_PROXY": PROXY,
        "NO_PROXY": exempt,
    }

    found = find_connection("", environment=environment, clock=StillClock(), account=tmp_path)

    assert found.proxy == proxy
