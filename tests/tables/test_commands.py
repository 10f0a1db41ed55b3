"""Commands and mounts take the URL of a database where they take a store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.running import journalfs, objects
from tests.mounting import mounted_for_writing
from tests.tables.instances import instance_at
from tests.writing.conftest import shell


@pytest.mark.rule("S-220")
def test_an_embedded_store_from_a_shell(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/orders.db"
    made = journalfs("create", url)
    assert (made.returncode, made.stderr) == (0, "")
    again = journalfs("create", url)
    assert again.returncode == 1
    assert "there is a store already" in again.stderr
    assert {line["queue"] for line in objects("ls", "--json", url) if "queue" in line} == {
        "DLQ",
        "ExpiryQueue",
    }
    assert journalfs("check", url).returncode == 0


@pytest.mark.rule("S-220")
@pytest.mark.mount
def test_a_mount_of_an_embedded_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/orders.db"
    assert journalfs("create", url).returncode == 0
    with mounted_for_writing(Path(url), tmp_path / "mnt") as mount:
        assert mount.events() == []
        (mount.path / "orders" / "orders").mkdir(parents=True)
        (mount.path / "orders" / "in.txt").write_text("one\ntwo\n")
        assert 'dead-letter-address = "DLQ"' in (mount.path / "DLQ" / ".settings").read_text()
        (first, _) = sorted(os.listdir(mount.path / "orders" / "orders" / ".messages"))
        (mount.path / "orders" / "orders" / ".messages" / first).unlink()
    lines = objects("cat", url, "orders::orders")
    assert [line["body"] for line in lines] == ["two"]


@pytest.mark.rule("S-69")
@pytest.mark.mount
def test_what_could_not_be_published_outlives_the_mount(tmp_path: Path) -> None:
    store = Path(f"sqlite:///{tmp_path}/orders.db")
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        (mount.path / "orders" / "orders").mkdir(parents=True)
        shell("{ /bin/echo '[1,'; } > in.json", mount.path / "orders")
        shell("{ /bin/echo '[2,'; sync noted.json; } > noted.json", mount.path / "orders")
        events = mount.events()
        (said,) = (one["message"] for one in events if one["event"] == "no-configuration")
        assert ".settings of addresses" in said
        kept = [Path(one["message"].rpartition(" ")[2]) for one in events if one["event"] == "kept"]
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        assert "kept" not in {one["event"] for one in mount.events()}
        assert [one.read_bytes() for one in kept] == [b"[1,\n", b"[2,\n"]


def test_a_password_is_shown_nowhere(tmp_path: Path) -> None:
    done = journalfs("ls", "postgresql://me:secret@127.0.0.1:1/none")
    assert done.returncode == 2
    assert "postgresql+psycopg://me@127.0.0.1:1/none: cannot read the store" in done.stderr
    assert "secret" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("url", "reason", "exit_code"),
    [
        ("postgresql://me@127.0.0.1:port/none", "its port is no number", 2),
        ("sqlite:///", "unable to open database file", 2),
        ("sqlite:///none.db", "there is no such file", 3),
    ],
)
def test_wrong_urls_are_told(
    url: str, reason: str, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = journalfs("ls", url)
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert reason in done.stderr
    assert not (tmp_path / "none.db").exists()


@pytest.mark.mount
def test_settings_of_addresses_come_from_where_a_broker_has_them(tmp_path: Path) -> None:
    """An instance that never ran is made; its configuration holds; said by hand, for a URL as well."""
    instance, url = tmp_path / "instance", f"sqlite:///{tmp_path}/orders.db"
    etc, data = instance / "etc", instance / "data"
    etc.mkdir(parents=True)
    config = instance_at(etc, url) / "broker.xml"
    setting = "<max-delivery-attempts>7</max-delivery-attempts>"
    said = f'<address-settings><address-setting match="#">{setting}</address-setting></address-settings>'
    config.write_text(config.read_text().replace("</core>", f"{said}</core>"))
    assert journalfs("create", instance).returncode == 0
    assert "there is a store already" in journalfs("create", "--config", config, url).stderr

    def attempts(store: Path, *options: str) -> str:
        with mounted_for_writing(store, tmp_path / "mnt", *options) as mount:
            (mount.path / "orders").mkdir(exist_ok=True)
            text = (mount.path / "orders" / ".settings").read_text()
        return next(line for line in text.splitlines() if line.startswith("max-delivery-attempts"))

    by_xml = "max-delivery-attempts = 7  # attempts, broker.xml match '#'"
    assert attempts(instance) == attempts(Path(url), "-o", f"config={config}") == by_xml
    (etc / "broker.properties").write_text('addressSettings."#".maxDeliveryAttempts=5\n')
    assert "= 5  # attempts, broker.properties match '#'" in attempts(instance)
    data.mkdir()
    (data / "journalfs.toml").write_text('[address-settings."#"]\nmax-delivery-attempts = 3\n')
    assert "= 3  # attempts, journalfs.toml match '#'" in attempts(instance)
    listed = journalfs("ls", "--config", config, url)
    assert (listed.returncode, listed.stderr) == (0, "")
