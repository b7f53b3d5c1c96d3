from dataclasses import asdict, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.model import feature_gates
from trimtab.core.model.feature_gates import FeatureGates, GateError

NAMES = ("CPUStartupBoost", "InPlace", "PerVPAConfig", "PodSelector", "UpscaleOnly")
FIELDS = tuple(field.name for field in fields(FeatureGates))
ALL_OFF = FeatureGates(**dict.fromkeys(FIELDS, False))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", FeatureGates(), id="nothing said: every feature is on"),
        pytest.param("InPlace=false", FeatureGates(in_place=False), id="one switched off"),
        pytest.param(
            "CPUStartupBoost=false,PerVPAConfig=false",
            FeatureGates(cpu_startup_boost=False, per_vpa_config=False),
            id="two switched off",
        ),
        pytest.param("PodSelector=true", FeatureGates(), id="switched on though on already"),
        pytest.param("UpscaleOnly=F", FeatureGates(upscale_only=False), id="a short truth"),
        pytest.param(" InPlace = 0 ,", FeatureGates(in_place=False), id="spaces and a last comma"),
        pytest.param("AllAlpha=false", ALL_OFF, id="all off at once"),
        pytest.param("AllBeta=false", FeatureGates(), id="no gate is beta"),
        pytest.param(
            "InPlace=true,AllAlpha=false",
            FeatureGates(**{**asdict(ALL_OFF), "in_place": True}),
            id="a named gate wins over all",
        ),
        pytest.param(
            "InPlace=false,InPlace=true", FeatureGates(), id="of two equal names the last wins"
        ),
    ],
)
def test_gates_are_read_from_a_list_of_switches(text: str, expected: FeatureGates) -> None:
    found, warnings = feature_gates.parse(text)

    assert found == expected
    assert warnings == []


@pytest.mark.parametrize("name", ["InPlaceOrRecreate", "NativeSidecar", "inplace"])
def test_f46_an_unknown_or_retired_gate_is_a_warning_that_names_it(name: str) -> None:
    found, warnings = feature_gates.parse(f"{name}=true,InPlace=false")

    assert found == FeatureGates(in_place=False)
    assert len(warnings) == 1
    assert name in warnings[0]


@pytest.mark.parametrize(
    "text", ["InPlace", "InPlace=", "InPlace=yes", "=true", "InPlace=true=false", "InPlace:true"]
)
def test_what_is_not_a_switch_is_an_error_that_shows_it(text: str) -> None:
    with pytest.raises(GateError) as caught:
        feature_gates.parse(f"PodSelector=true,{text}")

    assert repr(text) in str(caught.value)


@given(st.dictionaries(st.sampled_from(NAMES), st.booleans()))
def test_exactly_the_named_gates_take_the_given_switch(switches: dict[str, bool]) -> None:
    text = ",".join(f"{name}={str(switch).lower()}" for name, switch in switches.items())

    found, _ = feature_gates.parse(text)

    expected = dict.fromkeys(NAMES, True) | switches
    assert dict(zip(NAMES, (getattr(found, field) for field in FIELDS), strict=True)) == expected
