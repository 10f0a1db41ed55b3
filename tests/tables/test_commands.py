"""Commands and mounts take the URL of a database where they take a store."""

from __future__ import annotations

import glob
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import journalfs, objects
from tests.mounting import JOURNALFS, mounted_for_writing
from tests.tables.instances import instance_at
from tests.tables.servers import Server
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
    for command in (["compact"], ["compact", "--dry-run"], ["scrub"]):
        refused = journalfs(*command, url)
        assert (refused.returncode, refused.stdout) == (4, "")
        assert "this takes stores in files only" in refused.stderr


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
    assert "postgresql://me@127.0.0.1:1/none: cannot read the store" in done.stderr
    assert "secret" not in done.stderr + done.stdout


@pytest.mark.rule("S-337")
@pytest.mark.mount
def test_nobody_sees_a_password(empty_database: Callable[[str], str], tmp_path: Path) -> None:
    url = empty_database("postgresql").replace("artemis@", "artemis:se/cr@et@")
    assert journalfs("create", url).returncode == 0
    helper = JOURNALFS.with_name("mount.journalfs")
    place = tmp_path / "mnt"
    place.mkdir()
    calls: tuple[list[str | Path], ...] = ([JOURNALFS, "mount", url, place], [helper, url, place])
    for call in calls:
        assert subprocess.run(call, check=False, capture_output=True).returncode == 0
        try:
            seen = [
                Path(file).read_bytes() for file in glob.glob("/proc/[0-9]*/cmdline") if os.path.exists(file)
            ]
            seen.append(Path("/proc/self/mountinfo").read_bytes())
            control = place / ".journalfs"
            seen += [(control / name).read_bytes() for name in ("status.json", "events.jsonl", "metrics")]
            assert not [one for one in seen if re.search(b"cr(@|%40)et", one)]
        finally:
            assert journalfs("umount", place).returncode == 0
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"queue":"q","body":"one"}\n')
    assert journalfs("import", lines, url).stdout.endswith("1 messages in 1 queues\n")
    lines.write_text('{"queue":"q","body":"one"}\n{\n')
    told = [done.stdout + done.stderr for done in (journalfs("import", lines, url), journalfs("ls", url))]
    told += [note.read_text() for note in tmp_path.glob(".*.importing")]
    assert not [text for text in told if "et@" in text.replace("%40", "@")]
    for words in (["why", url], ["take", url], ["put", url], ["ls", url.replace("postgresql", "pgsql")]):
        said = journalfs(*words)
        assert said.returncode != 0
        assert "et@" not in said.stderr.replace("%40", "@")


@pytest.mark.parametrize("name", ["message-table-name", "bindings-table-name"])
def test_a_table_with_a_wrong_name_is_not_made(name: str, tmp_path: Path) -> None:
    url, text = f"sqlite:///{tmp_path}/orders.db", tmp_path / "one.txt"
    text.write_text("one\n")
    assert journalfs("create", url).returncode == 0
    assert journalfs("put", url, "DLQ::DLQ", text).returncode == 0
    config = instance_at(tmp_path / "instance", url) / "broker.xml"
    config.write_text(config.read_text().replace("</database", f"<{name}>OTHER</{name}></database"))
    calls: tuple[list[str | Path], ...] = (["ls", config], ["put", config, "DLQ::DLQ", text])
    for command in calls:
        done = journalfs(*command)
        assert done.returncode == 3
        assert "no table other in this database" in done.stderr
    assert [line["body"] for line in objects("cat", url)] == ["one"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://root@127.0.0.1:1/", "it names no database"),
        ("mysql://root@127.0.0.1:1/mysql?charset=none", "a parameter of the URL cannot be used"),
        ("mysql://root@127.0.0.1:1/mysql?sslmode=none", "sslmode: there is no 'none'"),
        ("jdbc:mysql://a,h/mysql", "give one server"),
    ],
)
def test_what_mysql_s_driver_cannot_use_is_told(url: str, reason: str) -> None:
    done = journalfs("ls", url)
    assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)
    assert reason in done.stderr


@pytest.mark.long
@pytest.mark.rule("S-338")
def test_encryption_that_was_asked_for_is_never_left_out(maria: Server) -> None:
    done = journalfs("ls", f"jdbc:mysql://127.0.0.1:{maria.port}/mysql?user=root&sslMode=REQUIRED")
    assert (done.returncode, done.stdout) == (2, "")
    assert "SSL is required but the server doesn't support it" in done.stderr


@pytest.mark.parametrize(
    ("url", "reason", "exit_code"),
    [
        ("pgsql://me@h/none", "pgsql:: no directory, and no kind of database that is known", 3),
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
