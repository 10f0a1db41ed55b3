"""Where a broker is, and how it is asked: what needs no broker to be tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from journalfs.errors import WrongCall
from journalfs.through.broker_url import PASSWORD_FILE_VARIABLE, PASSWORD_VARIABLE, BrokerUrl
from tests.mounting import journalfs

pytest.importorskip("proton")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("amqp://somewhere", "amqp://somewhere:5672"),
        ("amqps://somewhere", "amqps://somewhere:5671"),
        ("amqp://[::1]:61616", "amqp://[::1]:61616"),
        ("amqp://us%40er@host:1", "amqp://us@er@host:1"),
    ],
)
def test_what_a_url_says(text: str, shown: str) -> None:
    assert str(BrokerUrl.parse(text, {PASSWORD_VARIABLE: "secret"})) == shown


@pytest.mark.rule("S-382")
def test_the_password_comes_from_the_environment_and_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    for environment in ({PASSWORD_VARIABLE: "secret"}, {PASSWORD_FILE_VARIABLE: str(file)}):
        url = BrokerUrl.parse("amqp://me@host", environment)
        assert url.password == "secret"
        assert "secret" not in f"{url!r} {url}"


@pytest.mark.rule("S-382")
@pytest.mark.parametrize(
    ("text", "environment", "said"),
    [
        ("http://host", {}, "amqp://USER@HOST:PORT"),
        ("amqp://", {}, "amqp://USER@HOST:PORT"),
        ("amqp://host:port", {}, "amqp://USER@HOST:PORT"),
        ("amqp://host/queue", {}, "nothing follows the port"),
        ("amqp://me@host", {}, PASSWORD_VARIABLE),
        ("amqp://me@host", {PASSWORD_FILE_VARIABLE: "/nowhere/at/all"}, "/nowhere/at/all"),
    ],
)
def test_what_is_no_url(text: str, environment: dict[str, str], said: str) -> None:
    with pytest.raises(WrongCall) as raised:
        BrokerUrl.parse(text, environment)
    assert said in str(raised.value)


@pytest.mark.rule("S-382")
def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(WrongCall) as raised:
        BrokerUrl.parse("amqp://me:hidden@host", {})
    assert PASSWORD_VARIABLE in str(raised.value)
    assert "hidden" not in str(raised.value)


@pytest.mark.rule("S-383")
def test_no_broker_is_there(tmp_path: Path) -> None:
    assert journalfs("create", tmp_path / "data").returncode == 0
    done = journalfs("put", tmp_path / "data", "DLQ::DLQ", "--through", "amqp://127.0.0.1:1")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "amqp://127.0.0.1:1: cannot connect" in line
