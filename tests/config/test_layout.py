"""Finding a store from any path that means one, and saying clearly what is none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from journalfs.config.database import DatabaseStore
from journalfs.config.files import CONFIG_VARIABLE
from journalfs.config.layout import locate_store
from journalfs.errors import ConfigError, NotAStore, ReadOnlyStore, SystemFailure, UnknownVersion
from journalfs.store import open_store
from journalfs.store.write.opening import open_for_writing
from tests.format import encode
from tests.frozen import FILE_STORES, PristineStores
from tests.tools.crash_copy import copy_as_left

PATHS = ["", "broker.xml", "data", "data/journal", "data/bindings"]


@pytest.mark.parametrize("name", FILE_STORES)
@pytest.mark.parametrize("inside", PATHS)
def test_every_way_to_name_a_real_store(name: str, inside: str, stores: PristineStores) -> None:
    store = stores[name]
    layout = locate_store(store / inside)
    data = store / "data"
    assert layout.root == data
    assert layout.broker_xml == store / "broker.xml"
    assert (layout.journal_dir, layout.bindings_dir) == (data / "journal", data / "bindings")
    assert (layout.paging_dir, layout.large_dir) == (data / "paging", data / "large-messages")
    assert layout.node_manager_lock_dir == data / "journal"
    assert layout.retention_dir == (data / "retention" if name == "retention" else None)
    assert not layout.warnings


def test_relative_paths(stores: PristineStores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stores["aio"] / "data")
    assert locate_store(".").root == stores["aio"] / "data"


def test_broker_instance(store_copy: Callable[[str], Path]) -> None:
    instance = store_copy("aio")
    (instance / "etc").mkdir()
    (instance / "broker.xml").rename(instance / "etc" / "broker.xml")
    for inside in ("", "etc", "data", "data/journal"):
        layout = locate_store(instance / inside)
        assert layout.journal_dir == instance / "data" / "journal"
        assert layout.broker_xml == instance / "etc" / "broker.xml"


def configure(instance: Path, **directories: str) -> None:
    settings = "".join(
        f"<{name.replace('_', '-')}>{value}</{name.replace('_', '-')}>\n"
        for name, value in directories.items()
    )
    (instance / "broker.xml").write_text(f"<configuration><core>\n{settings}</core></configuration>")


def test_configured_directories_win_over_the_usual_ones(store_copy: Callable[[str], Path]) -> None:
    instance = store_copy("aio")
    shutil.copytree(instance / "data" / "journal", instance / "elsewhere" / "j")
    shutil.copytree(instance / "data" / "bindings", instance / "elsewhere" / "b")
    configure(
        instance,
        journal_directory="elsewhere/j",
        bindings_directory="elsewhere/b",
        node_manager_lock_directory="elsewhere/locks",
        paging_directory=str(instance / "pages"),
    )
    layout = locate_store(instance)
    assert layout.root == instance / "elsewhere"
    assert layout.journal_dir == instance / "elsewhere" / "j"
    assert layout.node_manager_lock_dir == instance / "elsewhere" / "locks"
    assert layout.paging_dir == instance / "pages"
    # Not configured: the default name is looked for, then the one that new instances are configured with.
    assert layout.large_dir == instance / "data" / "large-messages"


def test_data_directory_that_the_configuration_does_not_use(store_copy: Callable[[str], Path]) -> None:
    instance = store_copy("aio")
    configure(instance, journal_directory="elsewhere/j", bindings_directory="elsewhere/b")
    layout = locate_store(instance / "data")
    assert layout.journal_dir == instance / "data" / "journal"
    assert layout.config is None
    [warning] = layout.warnings
    assert "not used, because its store is" in warning


def test_configuration_of_another_machine(store_copy: Callable[[str], Path]) -> None:
    instance = store_copy("aio")
    configure(instance, journal_directory="/not/here/journal", bindings_directory="/not/here/bindings")
    layout = locate_store(instance)
    assert layout.journal_dir == instance / "data" / "journal"
    assert layout.broker_xml == instance / "broker.xml"
    [warning] = layout.warnings
    assert "are not on this machine; using" in warning


def test_data_directory_without_configuration(store_copy: Callable[[str], Path]) -> None:
    store = store_copy("aio")
    (store / "broker.xml").unlink()
    (store / "data" / "large-messages").rename(store / "data" / "largemessages")
    for given in (store / "data", store / "data" / "journal"):
        layout = locate_store(given)
        assert layout.config is None
        assert layout.root == store / "data"
        assert layout.large_dir == store / "data" / "largemessages"


def test_lone_journal_directory(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    lone = tmp_path / "only-this"
    store_copy("aio").joinpath("data", "journal").rename(lone)
    layout = locate_store(lone)
    assert (layout.root, layout.journal_dir, layout.bindings_dir) == (lone, lone, lone)


def test_missing_journal_leaves_the_bindings(store_copy: Callable[[str], Path]) -> None:
    store = store_copy("aio")
    shutil.rmtree(store / "data" / "journal")
    assert locate_store(store).bindings_dir == store / "data" / "bindings"
    assert locate_store(store / "data").bindings_dir == store / "data" / "bindings"


def test_through_a_symbolic_link(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(store_copy("aio"))
    assert locate_store(link).journal_dir == link.resolve() / "data" / "journal"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("hq-2.1-core", "a HornetQ journal"),
        ("hq-2.2-core", "a HornetQ journal"),
        ("hq-2.4-main", "a HornetQ journal"),
        ("hq-2.4-killed", "a HornetQ journal"),
        ("art-1.0-main", "Artemis 1.x"),
        ("art-1.5-main", "Artemis 1.x"),
        ("art-1.5-killed-aio", "Artemis 1.x"),
        ("amq-5.0-clean", "an AMQ message store"),
        ("amq-5.4-clean", "an AMQ message store"),
        ("amq-5.4-killed", "an AMQ message store"),
        ("amq-5.8-killed", "an AMQ message store"),
    ],
)
def test_stores_of_older_software_are_named(name: str, says: str, stores: PristineStores) -> None:
    folders = [stores[name], *(path for path in stores[name].rglob("journal") if path.is_dir())]
    assert len(folders) == 2
    for given in folders:
        with pytest.raises(UnknownVersion) as caught:
            locate_store(given)
        assert caught.value.exit_code == 4
        assert "`journalfs convert`" in str(caught.value)
        assert says in str(caught.value) or "data logs of an AMQ message store" in str(caught.value)


def test_artemis_1_without_messages(tmp_path: Path) -> None:
    """Told by its JMS journal and by queues whose addresses have no records."""
    (tmp_path / "journal").mkdir()
    bindings = tmp_path / "bindings"
    bindings.mkdir()
    (tmp_path / "journal" / "activemq-data-1.amq").write_bytes(encode.header(1) + bytes(1024))
    (bindings / "activemq-jms-1.jms").write_bytes(encode.header(1))
    queue = encode.add(1, 2, 21, encode.simple_string("q"))
    (bindings / "activemq-bindings-1.bindings").write_bytes(encode.header(1) + queue + bytes(1024))
    with pytest.raises(UnknownVersion, match=r"Artemis 1\.x"):
        locate_store(tmp_path)
    address = encode.add(1, 3, 44, encode.simple_string("q"))
    (bindings / "activemq-bindings-1.bindings").write_bytes(encode.header(1) + queue + address)
    assert locate_store(tmp_path).journal_dir == tmp_path / "journal"


def test_a_store_of_hornetq_2_0_is_named(tmp_path: Path) -> None:
    """Its files begin with their id, as each record repeats it: there is no version before."""
    (tmp_path / "journal").mkdir()
    path = tmp_path / "journal" / "hornetq-data-8.hq"
    path.write_bytes(bytes.fromhex("00000008 0c 00000008 000000000000 08f2") + bytes(1024))
    with pytest.raises(UnknownVersion, match=r"HornetQ 2\.0 .* HornetQ 2\.1 to 2\.4 can be read"):
        locate_store(tmp_path)


def test_database_stores_are_named(stores: PristineStores) -> None:
    with pytest.raises(DatabaseStore, match=r"^jdbc:postgresql.*a store in a database"):
        locate_store(stores["jdbc"])


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (["kahadb/db.data"], "KahaDB"),
        (["db.data", "db-1.log"], "KahaDB"),
        (["#210/db-1.log", "txStore/db-1.log"], "KahaDB"),
        (["KahaDB/db-1.log", "tmp_storage/x"], "KahaDB"),
        (["mKahaDB/#210/db-1.log", "mKahaDB/txStore/db-1.log", "tmp_storage/x"], "KahaDB"),
        (["bindings.txt", "data.txt"], "text export"),
        (["dump.sql"], "database dump"),
    ],
)
def test_other_layouts_are_named(files: list[str], says: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(UnknownVersion, match=says):
        locate_store(tmp_path)


@pytest.mark.parametrize(
    "beside", ["before/db-1.log", "kahadb/db-1.log", "db-1.log", "kr-store/x", "dump.sql"]
)
def test_a_store_of_today_beside_an_older_one_is_none(beside: str, tmp_path: Path) -> None:
    for name in ("journal/activemq-data-1.amq", beside):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(encode.header(1))
    assert locate_store(tmp_path).journal_dir == tmp_path / "journal"


@pytest.mark.parametrize(
    "content", [[], ["README"], ["journal/README"], ["a/x", "b/y"], ["journal/system.journal"]]
)
def test_no_store(content: list[str], tmp_path: Path) -> None:
    for name in content:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(NotAStore) as caught:
        locate_store(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: ")
    assert "journal/*.amq" in message
    assert caught.value.exit_code == 3
    assert "\n" not in message


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="there is no such directory"):
        locate_store(tmp_path / "missing")


def test_a_file_that_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "x.amq").touch()
    with pytest.raises(NotAStore, match="no message store here"):
        locate_store(tmp_path / "x.amq")


def test_instance_that_never_ran(tmp_path: Path) -> None:
    configure(tmp_path, journal_directory="data/journal")
    with pytest.raises(NotAStore, match="has the broker ever run"):
        locate_store(tmp_path)


def test_broken_configuration(store_copy: Callable[[str], Path]) -> None:
    store = store_copy("aio")
    (store / "broker.xml").write_text("<core>\n<oops></core>")
    with pytest.raises(ConfigError, match=r"broker\.xml:2: not well-formed"):
        locate_store(store)


@pytest.mark.skipif(
    os.geteuid() != 0, reason="needs a directory that even its owner's tools cannot look into"
)
def test_directory_that_cannot_be_read() -> None:
    # Another process's root: even the superuser is refused here when it lacks the right to trace.
    path = Path("/proc/1/root")
    try:
        os.listdir(path)
    except PermissionError:
        with pytest.raises(SystemFailure, match="cannot look for a store: Permission denied"):
            locate_store(path)
    else:
        with pytest.raises(NotAStore):
            locate_store(path)


def test_folder_around_a_data_directory(store_copy: Callable[[str], Path]) -> None:
    store = store_copy("aio")
    (store / "broker.xml").unlink()
    assert locate_store(store).journal_dir == store / "data" / "journal"


def test_a_broken_configuration_names_the_data_directory_that_does_without_it(
    store_copy: Callable[[str], Path],
) -> None:
    instance = store_copy("aio")
    (instance / "broker.xml").write_text("<conf")
    for given in (instance, instance / "broker.xml"):
        with pytest.raises(ConfigError, match=rf"not well-formed.*give the data directory {instance}/data"):
            locate_store(given)
    for given in (instance / "data", instance / "data" / "journal"):
        layout = locate_store(given)
        assert layout.journal_dir == instance / "data" / "journal"
        assert layout.config is None
        (warning,) = layout.warnings
        assert "not well-formed" in warning
        assert "not used" in warning


def test_a_configuration_that_may_not_be_read_names_the_data_directory(
    store_copy: Callable[[str], Path],
) -> None:
    instance = store_copy("aio")
    (instance / "broker.xml").chmod(0)
    if os.geteuid() == 0:  # root may read everything, but not more than there is
        (instance / "broker.xml").unlink()
        (instance / "broker.xml").symlink_to("/proc/self/mem")
    with pytest.raises(SystemFailure, match=rf"cannot read.*give the data directory {instance}/data"):
        locate_store(instance)
    assert locate_store(instance / "data").config is None


@pytest.mark.parametrize("folder", ["", "etc"])
@pytest.mark.parametrize("kind", ["pipe", "directory", "device"])
def test_a_configuration_that_is_no_file_leaves_a_warning(
    store_copy: Callable[[str], Path], folder: str, kind: str
) -> None:
    instance = store_copy("aio")
    (instance / "broker.xml").unlink()
    (instance / "etc").mkdir()
    file = instance / folder / "broker.xml"
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "directory":
            file.mkdir()
        case _:
            file.symlink_to("/dev/zero")
    for given in (instance, instance / "data", instance / "data" / "journal"):
        assert locate_store(given).warnings == (f"{file}: not a regular file, so no configuration is read",)


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_journal_that_may_not_be_looked_into_is_named_itself(stores: PristineStores, mode: int) -> None:
    with tempfile.TemporaryDirectory() as folder:  # below pytest's own, nobody else may look
        instance = Path(folder, "instance")
        copy_as_left(stores["aio"], instance)
        (instance / "broker.xml").unlink()
        Path(folder).chmod(0o755)
        journal = instance / "data" / "journal"
        journal.chmod(mode)
        before = os.geteuid()
        os.seteuid(65534 if before == 0 else before)  # root may look everywhere
        try:
            for given in (instance, instance / "data", journal):
                with pytest.raises(SystemFailure, match=f"^{journal}: cannot .*: Permission denied$"):
                    locate_store(given)
        finally:
            os.seteuid(before)
            journal.chmod(0o700)


def history_of(store: Path) -> Path:
    return store / "data" / "retention"


@pytest.mark.rule("S-179")
def test_a_history_has_the_names_of_its_store(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    store = store_copy("retention")
    history = history_of(store)
    layout = locate_store(history)
    assert (layout.root, layout.journal_dir, layout.history_of) == (history, history, store / "data")
    assert layout.bindings_dir == store / "data/bindings"
    assert layout.retention_dir is None
    assert not layout.warnings
    with pytest.raises(ReadOnlyStore, match="is the history of"):
        open_for_writing(history)
    # Wherever the configuration says that it is.
    (store / "etc").mkdir()
    told = (store / "broker.xml").read_text().replace(">data/retention<", ">kept/of all days<")
    (store / "etc/broker.xml").write_text(told)
    (store / "broker.xml").unlink()
    (store / "kept").mkdir()
    moved = history.rename(store / "kept/of all days")
    assert locate_store(moved).history_of == store / "data"
    with closing(open_store(moved, index=False)) as found:
        names = {queue.name for address in found.addresses() for queue in address.queues()}
        assert {"payments", "rates.desk", "rates.log"} <= names
        assert found.status()["messages"] == 324
    # A copy of it elsewhere is anybody's, until it is said whose it is.
    copied = Path(shutil.copytree(moved, tmp_path / "elsewhere/copied"))
    assert locate_store(copied).history_of is None
    said = {CONFIG_VARIABLE: str(store / "etc/broker.xml")}
    assert locate_store(copied, environment=said).history_of == store / "data"


def test_a_history_is_no_ones_that_says_otherwise(store_copy: Callable[[str], Path]) -> None:
    store = store_copy("retention")
    broker_xml = store / "broker.xml"
    broker_xml.write_text(broker_xml.read_text().replace(">data/retention<", ">/other/retention<"))
    assert locate_store(history_of(store)).history_of is None
    (store / "data/journalfs.toml").write_text('journal-retention-directory = "retention"\n')
    broker_xml.unlink()
    assert locate_store(history_of(store)).history_of == store / "data"
