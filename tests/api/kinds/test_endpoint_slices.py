"""Copies behind a Service that are ready to answer."""

from trimtab.api.kinds.deployments import decode_ready_addresses


def test_only_copies_that_are_ready_or_do_not_say_count() -> None:
    data = (
        b'{"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}},'
        b'{"addresses": ["10.0.0.2"], "conditions": {"ready": false}},'
        b'{"addresses": ["10.0.0.3"]}]}'
    )

    assert decode_ready_addresses(data) == {"10.0.0.1", "10.0.0.3"}
