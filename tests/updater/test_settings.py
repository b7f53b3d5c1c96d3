from datetime import timedelta

import pytest

from trimtab.core.model.validation import SettingsError
from trimtab.updater.settings import UpdaterSettings


def test_the_defaults_are_the_original_s_but_for_the_pace() -> None:
    settings = UpdaterSettings()

    assert settings.interval == timedelta(minutes=1)
    assert (settings.pace.per_second, settings.pace.burst) == (1, 10)
    assert settings.plan.disruption.min_replicas == 2
    assert settings.plan.disruption.tolerance == 0.5
    assert settings.admission_lease_name == "vpa-admission-controller"
    assert settings.admission_lease_namespace == "kube-system"
    assert settings.admission_lease_timeout == timedelta(minutes=1)


@pytest.mark.parametrize(
    "fields",
    [
        {"interval": timedelta()},
        {"admission_lease_timeout": timedelta()},
        {"max_view_age": timedelta(seconds=-1)},
        {"gathering": timedelta(seconds=-1)},
        {"telling_after": timedelta(seconds=-1)},
        {"concurrency": 0},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        UpdaterSettings(**fields)  # type: ignore[arg-type]
