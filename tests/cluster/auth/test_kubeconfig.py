"""Kubeconfigs: what they mean, and how what is broken in them is told."""

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.makers.kubeconfigs import PLAIN, Json, a_kubeconfig, encoded, headers, load

from trimtab.cluster.errors import CredentialsError

V1 = "client.authentication.k8s.io/v1"


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param({}, {}, id="nobody"),
        pytest.param({"token": "abc"}, {"Authorization": "Bearer abc"}, id="a token"),
        pytest.param(
            {"username": "ann", "password": "secret"},
            {"Authorization": f"Basic {encoded('ann:secret')}"},
            id="a password",
        ),
        pytest.param(
            {"token": "abc", "as": "ann", "as-uid": "7", "as-groups": ["admins"]},
            {
                "Impersonate-User": "ann",
                "Impersonate-Uid": "7",
                "Impersonate-Group": "admins",
                "Authorization": "Bearer abc",
            },
            id="somebody else",
        ),
    ],
)
async def test_a_user_is_told_by_the_headers_of_each_request(
    tmp_path: Path, user: Json, expected: dict[str, str]
) -> None:
    connection = load(a_kubeconfig(tmp_path, user=user))

    assert await headers(connection) == expected
    assert connection.server == "http://127.0.0.1:1"
    assert connection.namespace == "shop"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("users: 2026-02-30", id="a date that is none"),
        pytest.param(f"users: {'9' * 5000}", id="a number of 5000 digits"),
        pytest.param("? {a: b}\n: c", id="a map as a key"),
        pytest.param("[" * 100_000, id="a nest"),
    ],
)
def test_a_file_that_a_loader_stumbles_over_is_a_broken_kubeconfig(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(CredentialsError, match=str(path)):
        load(path)


async def test_another_context_than_the_current_one_may_be_chosen(tmp_path: Path) -> None:
    contexts = [
        {"name": "work", "context": {"cluster": "here", "user": "me"}},
        {"name": "play", "context": {"cluster": "there"}},
    ]
    clusters = [
        {"name": "here", "cluster": PLAIN},
        {"name": "there", "cluster": {"server": "http://there/", "proxy-url": "http://proxy"}},
    ]
    path = a_kubeconfig(tmp_path, user={"token": "a"}, contexts=contexts, clusters=clusters)

    connection = load(path, context="play")

    assert (connection.server, connection.proxy) == ("http://there", "http://proxy")
    assert connection.namespace == "default"
    assert await headers(connection) == {}


async def test_of_several_files_the_first_that_says_it_is_right(tmp_path: Path) -> None:
    folder = tmp_path / "second"
    folder.mkdir()
    (folder / "token").write_text("from the second folder", encoding="utf-8")
    nothing: Json = {"users": [], "current-context": ""}
    first = a_kubeconfig(tmp_path, **nothing)
    second = a_kubeconfig(
        folder, cluster={"server": "http://elsewhere"}, user={"tokenFile": "token"}
    )

    connection = load(tmp_path / "missing", first, second)

    assert connection.server == "http://127.0.0.1:1"
    assert await headers(connection) == {"Authorization": "Bearer from the second folder"}


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        pytest.param(
            {"current-context": "gone"}, "contexts", "no 'gone'; there is: work", id="no context"
        ),
        pytest.param({"current-context": None}, "current-context", "which", id="none chosen"),
        pytest.param({"clusters": []}, "clusters", "no 'here'; there is: none", id="no cluster"),
        pytest.param({"users": None}, "users", "no 'me'", id="no user"),
        pytest.param({"contexts": [{"name": "work"}]}, "contexts", "which", id="empty context"),
        pytest.param(
            {"clusters": {}}, "clusters", "expected a list, got a map", id="a map for a list"
        ),
        pytest.param({"users": [{"user": {}}]}, "users[0]", "missing", id="an entry with no name"),
        pytest.param(
            {"users": [{"name": "me", "user": {"token": 7}}]},
            "users[0].user.token",
            "expected text, got a number",
            id="a number for a token",
        ),
        pytest.param(
            {"clusters": [{"name": "here", "cluster": {}}]},
            "clusters[here].server",
            "https://",
            id="no address",
        ),
        pytest.param(
            {"clusters": [{"name": "here", "cluster": {"server": "ftp://x"}}]},
            "clusters[here].server",
            "'ftp://x'",
            id="an address of another kind",
        ),
        pytest.param(
            {"clusters": [{"name": "here", "cluster": {"server": "https://["}}]},
            "clusters[here].server",
            "no address",
            id="half an address",
        ),
        pytest.param(
            {"clusters": [{"name": "here", "cluster": {**PLAIN, "proxy-url": "socks5://x"}}]},
            "clusters[here].proxy-url",
            "'socks5://x'",
            id="a proxy of another kind",
        ),
    ],
)
def test_what_is_broken_is_told_by_file_and_field(
    tmp_path: Path, fields: Json, field: str, problem: str
) -> None:
    path = a_kubeconfig(tmp_path, **fields)

    with pytest.raises(CredentialsError) as caught:
        load(path)

    assert caught.value.source == str(path)
    assert caught.value.field == field
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("user", "field"),
    [
        pytest.param({"auth-provider": {"name": "gcp"}}, "auth-provider", id="a retired way"),
        pytest.param({"token": "a\nb"}, "token", id="a token of two lines"),
        pytest.param({"as": "a\nb"}, "as", id="a name of two lines"),
        pytest.param({"client-key-data": "%"}, "client-key-data", id="no base64"),
        pytest.param(
            {"client-key-data": encoded("k")}, "client-certificate", id="a key without certificate"
        ),
        pytest.param(
            {"client-certificate-data": encoded("c"), "client-key-data": encoded("k")},
            "client-certificate",
            id="a certificate that is none",
        ),
        pytest.param(
            {"exec": {"apiVersion": f"{V1}alpha1", "command": "x"}},
            "exec.apiVersion",
            id="a protocol nobody speaks",
        ),
        pytest.param(
            {"exec": {"apiVersion": V1, "command": "x", "interactiveMode": "Always"}},
            "exec.interactiveMode",
            id="a plugin that asks people",
        ),
    ],
)
def test_a_user_that_cannot_work_is_told_by_file_and_field(
    tmp_path: Path, user: Json, field: str
) -> None:
    path = a_kubeconfig(tmp_path, cluster={"server": "https://127.0.0.1:1"}, user=user)

    with pytest.raises(CredentialsError) as caught:
        load(path)

    assert caught.value.source == str(path)
    assert caught.value.field == f"users[me].{field}"


@pytest.mark.parametrize("text", ["{", "[1]", "text", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(CredentialsError, match=str(path)):
        load(path)


def test_an_empty_file_says_nothing_and_a_missing_one_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()

    with pytest.raises(CredentialsError, match="current-context"):
        load(empty)
    with pytest.raises(CredentialsError, match="missing: cannot be read"):
        load(tmp_path / "missing")


NAMES = st.sampled_from(["here", "me", "work", ""])
TEXTS = st.text(max_size=8) | st.sampled_from(["http://[", "https://x", "a\nb", "%", "/x", "\x00"])
ANYTHING = st.none() | st.booleans() | st.integers() | TEXTS | st.lists(TEXTS, max_size=2)
CLUSTERS = st.dictionaries(
    st.sampled_from(["server", "certificate-authority", "certificate-authority-data", "proxy-url"]),
    ANYTHING,
)
USERS = st.dictionaries(
    st.sampled_from(
        ["token", "tokenFile", "client-certificate", "client-key-data", "as", "as-groups", "exec"]
    ),
    ANYTHING
    | st.fixed_dictionaries({"apiVersion": st.just(V1), "command": TEXTS, "args": ANYTHING}),
)


@given(CLUSTERS, USERS, st.none() | st.lists(st.fixed_dictionaries({"name": NAMES})))
@example({"server": None, "certificate-authority": "\x00"}, {}, None)
def test_whatever_stands_in_a_kubeconfig_ends_in_a_connection_or_a_named_error(
    cluster: Json, user: Json, contexts: list[Json] | None
) -> None:
    fields: Json = {} if contexts is None else {"contexts": contexts}
    with tempfile.TemporaryDirectory() as folder, suppress(CredentialsError):
        connection = load(a_kubeconfig(Path(folder), cluster=cluster, user=user, **fields))

        assert connection.server.startswith("http")


def test_a_file_whose_name_no_system_allows_is_named(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)

    with pytest.raises(CredentialsError, match="cannot be read"):
        load(path)
