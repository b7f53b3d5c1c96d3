"""The audit log of the rig: which entries count, and what they say."""

import json
from pathlib import Path

from rig import audit
from rig.audit import Request

ACCOUNT = "system:serviceaccount:shop:updater"


def an_entry(user: str = ACCOUNT, decision: str = "allow") -> dict[str, object]:
    return {
        "verb": "create",
        "user": {"username": user},
        "requestURI": "/api/v1/namespaces/shop/pods/web/eviction?dryRun=All",
        "objectRef": {
            "resource": "pods",
            "namespace": "shop",
            "name": "web",
            "subresource": "eviction",
        },
        "annotations": {"authorization.k8s.io/decision": decision},
    }


def test_an_entry_is_told_in_the_words_of_roles() -> None:
    told = audit.decode(an_entry())
    refused = audit.decode(an_entry(decision="forbid"))
    discovery = audit.decode(
        {"verb": "get", "user": {"username": ACCOUNT}, "requestURI": "/apis/apps"}
    )

    path = "/api/v1/namespaces/shop/pods/web/eviction"
    assert told == Request("create", "", "pods/eviction", "shop", "web", path, is_allowed=True)
    assert not refused.is_allowed
    assert (discovery.resource, discovery.path) == ("", "/apis/apps")


def test_only_whole_entries_of_the_user_are_read(tmp_path: Path) -> None:
    flags = audit.prepare(tmp_path)
    log = Path(flags[1].partition("=")[2])
    lines = [json.dumps(an_entry()), json.dumps(an_entry("somebody")), '{"verb": "ge']
    log.write_text("\n".join(lines), encoding="utf-8")

    assert list(audit.read(tmp_path, ACCOUNT)) == [audit.decode(an_entry())]


def test_nobody_but_accounts_is_written_down(tmp_path: Path) -> None:
    flags = audit.prepare(tmp_path)
    policy = json.loads(Path(flags[0].partition("=")[2]).read_text(encoding="utf-8"))

    assert [rule["level"] for rule in policy["rules"]] == ["Metadata", "None"]
    assert policy["rules"][0]["userGroups"] == ["system:serviceaccounts"]
    assert "userGroups" not in policy["rules"][1]
