"""HornetQ and Artemis within WildFly, JBoss AS and EAP: found by the directories that those have."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.config.layout import locate_store
from tests.cli.running import journalfs, objects
from tests.frozen import PristineStores
from tests.mounting import mounted_for_writing

pytestmark = pytest.mark.rule("S-335")

NAMES = {
    "journal": "messagingjournal",
    "bindings": "messagingbindings",
    "paging": "messagingpaging",
    "large-messages": "messaginglargemessages",
}


@pytest.fixture
def jboss(stores: PristineStores, tmp_path: Path) -> Path:
    """The data directory of EAP 6, with what an application server has beside."""
    data = tmp_path / "eap/standalone/data"
    (data / "content/ab").mkdir(parents=True)
    (data / "tx-object-store/ShadowNoFileLockStore").mkdir(parents=True)
    for name, theirs in NAMES.items():
        found = stores["hq-2.4-main"] / name
        if found.is_dir():
            shutil.copytree(found, data / theirs)
    return data


def counts(*words: str | Path) -> dict[str, int]:
    return {line["queue"]: line["messages"] for line in objects("ls", "--json", *words) if "queue" in line}


def test_hornetq_of_an_application_server_is_found(jboss: Path, stores: PristineStores) -> None:
    expected = counts(stores["hq-2.4-main"])
    assert expected
    for given in ("", *NAMES.values(), "..", "../.."):
        assert counts(jboss / given) == expected, given
    assert counts("--format", "hornetq", jboss / "messagingjournal") == expected


def test_its_bodies_and_pages_are_there(jboss: Path, stores: PristineStores) -> None:
    checked = journalfs("check", jboss)
    assert checked.returncode == journalfs("check", stores["hq-2.4-main"]).returncode, checked.stderr
    assert "missing" not in checked.stdout


def test_a_part_is_converted_with_its_names(jboss: Path, stores: PristineStores, tmp_path: Path) -> None:
    done = journalfs("convert", jboss / "messagingjournal", tmp_path / "new")
    whole = journalfs("convert", stores["hq-2.4-main"], tmp_path / "other")
    assert done.returncode == whole.returncode, done.stderr
    assert counts(tmp_path / "new") == counts(tmp_path / "other")


def test_a_lone_journal_says_that_its_bindings_are_missing(jboss: Path, tmp_path: Path) -> None:
    lone = tmp_path / "lone"
    shutil.copytree(jboss / "messagingjournal", lone)
    done = journalfs("convert", lone, tmp_path / "new")
    assert done.returncode == 5
    assert "without its bindings" in journalfs("check", lone).stdout


def test_a_lone_journal_of_today_says_so_too(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    lone = tmp_path / "lone"
    store_copy("aio").joinpath("data/journal").rename(lone)
    assert any("without its bindings" in warning for warning in locate_store(lone).warnings)
    done = journalfs("convert", lone, tmp_path / "new")
    assert done.returncode == 5


@pytest.mark.parametrize(
    "given", ["", "activemq", "activemq/paging", "activemq/largemessages", "..", "../.."]
)
def test_artemis_of_wildfly_10(store_copy: Callable[[str], Path], tmp_path: Path, given: str) -> None:
    """Its directories lie in `activemq`, whose large messages have no hyphen."""
    source = store_copy("aio") / "data"
    data = tmp_path / "wildfly/standalone/data"
    data.mkdir(parents=True)
    (data / "content").mkdir()
    source.rename(data / "activemq")
    for name in ("paging", "large-messages"):
        (data / "activemq" / name).mkdir(exist_ok=True)
    (data / "activemq/large-messages").rename(data / "activemq/largemessages")
    layout = locate_store(data / given)
    assert layout.root == data / "activemq"
    assert layout.large_dir == data / "activemq/largemessages"
    assert layout.outside is None


@pytest.mark.mount
def test_format_reads_journalfs_toml(jboss: Path, tmp_path: Path) -> None:
    said = 'removed-keep-s = 61\njournal-directory = "elsewhere"\n'
    (jboss / "journalfs.toml").write_text(said)
    with mounted_for_writing(jboss, tmp_path / "mnt", "--format", "hornetq") as store:
        assert "removed-keep-s = 61" in (store.path / ".journalfs/settings.toml").read_text()
    (jboss / "journalfs.toml").write_text("max-delivery-attempt = 3\n")
    done = journalfs("ls", jboss)
    assert (done.returncode, "journalfs.toml:1" in done.stderr) == (6, True), done.stderr
