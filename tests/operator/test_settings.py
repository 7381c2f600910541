from __future__ import annotations

import pytest

from llama_operator.names import Key
from llama_operator.settings import parse_settings


def test_only_the_image_must_be_given() -> None:
    settings = parse_settings(["--runtime-image=runtime:1"])

    assert settings.runtime_image == "runtime:1"
    assert settings.namespaces == ()
    assert settings.lease is None
    assert (settings.health_port, settings.metrics_port) == (8080, 9090)


def test_namespaces_are_taken_once_each_in_their_order() -> None:
    settings = parse_settings(
        ["--runtime-image=r", "--namespace=b", "--namespace=a", "--namespace=b"]
    )

    assert settings.namespaces == ("b", "a")


def test_a_lease_is_a_namespace_and_a_name() -> None:
    settings = parse_settings(["--runtime-image=r", "--lease=llama-system/llama-operator"])

    assert settings.lease == Key("llama-system", "llama-operator")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "--runtime-image"),
        (["--runtime-image=r", "--resync-seconds=0"], "0 is not above 0"),
        (["--runtime-image=r", "--resync-seconds=nan"], "nan is not above 0"),
        (["--runtime-image=r", "--workers=0"], "invalid choice"),
        (["--runtime-image=r", "--health-port=70000"], "no port"),
        (["--runtime-image=r", "--lease=operator"], "operator is not NAMESPACE/NAME"),
        (["--runtime-image=r", "--name=x"], "unrecognized"),
    ],
)
def test_a_bad_flag_ends_with_a_sentence(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse_settings(arguments)

    assert end.value.code == 2
    assert complaint in capsys.readouterr().err
