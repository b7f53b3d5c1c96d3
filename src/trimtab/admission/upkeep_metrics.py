"""Metrics of what surrounds the webhook server: its keys, its registration, its self-test."""

from typing import Final

from prometheus_client import Counter, Gauge

SELF_TESTS: Final = Counter(
    "vpa_admission_controller_self_tests",
    "Self-tests, by what came of them.",
    ["outcome"],
)
SELF_TEST_PASSED: Final = Gauge(
    "vpa_admission_controller_self_test_passed",
    "Whether a new pod would get our patch: 1 if the last self-test passed, 0 if not.",
)
UPKEEP_STEPS: Final = Counter(
    "vpa_admission_controller_upkeep_steps",
    "Steps that were taken to be asked and believed, by kind.",
    ["step"],
)
UPKEEP_FAILURES: Final = Counter(
    "vpa_admission_controller_upkeep_failures",
    "Steps that failed, and will be tried again.",
)
CERTIFICATE_END: Final = Gauge(
    "vpa_admission_controller_certificate_expiry_timestamp_seconds",
    "When the certificate that is shown ends; 0 if it comes from files.",
)
