"""metrics-server behind the API server: what is registered, and when it can be reached."""

import base64
from pathlib import Path
from typing import Any

import pytest

from rig import metrics_server


def a_registration(status: str | None) -> dict[str, Any]:
    conditions = [{"type": "Available", "status": status}] if status else []
    return {"status": {"conditions": conditions}}


def test_the_metrics_api_is_registered_at_a_service_that_means_loopback(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_bytes(b"vouching")
    service = metrics_server.service()
    spec = metrics_server.registration(authority, 1234)["spec"]

    assert service["spec"] == {"type": "ExternalName", "externalName": "localhost"}
    assert spec["service"] == {**service["metadata"], "port": 1234}
    assert (spec["group"], spec["version"]) == ("metrics.k8s.io", "v1beta1")
    assert base64.b64decode(spec["caBundle"]) == b"vouching"


@pytest.mark.parametrize(
    ("registered", "expected"),
    [
        pytest.param(a_registration("True"), True, id="the API server has reached it"),
        pytest.param(a_registration("False"), False, id="the API server has tried in vain"),
        pytest.param(a_registration(None), False, id="without conditions"),
        pytest.param({}, False, id="just registered"),
    ],
)
def test_it_is_available_once_the_api_server_says_so(
    registered: dict[str, Any], *, expected: bool
) -> None:
    assert metrics_server.is_available(registered) is expected
