"""Copied and moved instances: the store that was named is the store that is opened."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.config.layout import locate_store
from tests.cli.running import Done, journalfs, objects
from tests.named.instances import BOOTSTRAP, fingerprint, make_instance, write_files

pytestmark = pytest.mark.rule("S-330")

Change = Callable[[Path, Path], None]


@pytest.fixture
def prod(tmp_path: Path) -> Path:
    return make_instance(tmp_path / "prod", directories="data")


def put(store: Path, *options: str | Path) -> Done:
    file = store.parent / "one.txt"
    file.write_text("x\n")
    return journalfs("put", *options, store, "DLQ::DLQ", file)


def counted(store: Path) -> int:
    lines = objects("ls", "--json", "--no-index", store)
    return int(next(line["messages"] for line in lines if "queue" in line))


def absolute(prod: Path, _copy: Path) -> None:
    write_files(prod, f"{prod}/data")


def by_property(prod: Path, _copy: Path) -> None:
    write_files(prod, "${data.dir}")


def by_include(prod: Path, _copy: Path) -> None:
    """Its directories stand in a file of its own, named in full."""
    broker_xml = prod / "etc/broker.xml"
    part = prod / "etc/parts.xml"
    text = broker_xml.read_text()
    directories = "".join(re.findall(r"<\S+-directory>.*\n", text)).replace(">data/", f">{prod}/data/")
    part.write_text(f'<parts xmlns="urn:activemq:core">{directories}</parts>')
    at = text.index("<paging-directory>")
    xi = f'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{part.as_uri()}"/>'
    included = part.read_text().replace("<parts", "<core").replace("</parts", "</core")
    part.write_text(included)
    head = text[: text.index("<core")]
    broker_xml.write_text(f"{head}{xi}</configuration>" if at else text)


COPIED: dict[str, Change] = {
    "absolute": absolute,
    "relative": lambda _prod, _copy: None,
    "by property": by_property,
    "by include": by_include,
}


NAMED = ["etc", "etc/broker.xml", "data", "data/journal"]


@pytest.mark.parametrize(
    ("said", "named"),
    [
        *((said, "") for said in COPIED),
        *(("absolute", named) for named in NAMED),
        *(
            pytest.param(said, named, marks=pytest.mark.long)
            for said in COPIED
            for named in NAMED
            if said != "absolute"
        ),
    ],
)
def test_a_copy_is_changed_and_not_its_original(prod: Path, said: str, named: str) -> None:
    copy = prod.parent / "copy"
    COPIED[said](prod, copy)
    shutil.copytree(prod, copy, symlinks=True)
    before = fingerprint(prod)
    layout = locate_store(copy / named)
    assert layout.root == copy / "data"
    assert layout.broker_xml == copy / "etc/broker.xml"
    assert any(f"was made as {prod}" in one for one in layout.warnings)
    done = put(copy / named)
    assert done.returncode == 0, done.stderr
    assert counted(copy) == 1
    taken = journalfs("take", copy / named, "DLQ::DLQ")
    assert (taken.returncode, taken.stdout.count("\n")) == (0, 1), taken.stderr
    assert fingerprint(prod) == before


def test_a_copy_is_run_by_its_own_settings(prod: Path) -> None:
    copy = prod.parent / "copy"
    shutil.copytree(prod, copy)
    file = prod / "etc/broker.xml"
    file.write_text(file.read_text().replace("<name>", "<journal-datasync>false</journal-datasync><name>"))
    config = locate_store(copy).config
    assert config is not None
    assert config.core_value("journal-datasync") is True


def without_profile(_prod: Path, copy: Path) -> None:
    (copy / "etc/artemis.profile").unlink()


def without_script(_prod: Path, copy: Path) -> None:
    (copy / "bin/artemis").unlink()


def without_either(prod: Path, copy: Path) -> None:
    without_profile(prod, copy)
    without_script(prod, copy)


def half_edited(prod: Path, copy: Path) -> None:
    """Its profile names the copy, and its script the original still."""
    profile = copy / "etc/artemis.profile"
    profile.write_text(profile.read_text().replace(str(prod), str(copy)))


@pytest.mark.parametrize("change", [without_profile, without_script, without_either, half_edited])
def test_a_part_of_a_copy_never_leads_to_the_original(prod: Path, change: Change) -> None:
    """Relative directories: nothing but the files of the start leads to the original."""
    copy = prod.parent / "copy"
    shutil.copytree(prod, copy)
    change(prod, copy)
    before = fingerprint(prod)
    assert locate_store(copy).broker_xml == copy / "etc/broker.xml"
    done = put(copy)
    assert done.returncode == 0, done.stderr
    assert counted(copy) == 1
    assert fingerprint(prod) == before


def absolute_directories(prod: Path, copy: Path) -> None:
    """Nothing says any more where the copy was made, and its broker.xml names the original's directories."""
    without_either(prod, copy)
    shutil.copy(prod / "etc/broker.xml", copy / "etc/broker.xml")
    text = (copy / "etc/broker.xml").read_text()
    (copy / "etc/broker.xml").write_text(text.replace(">data/", f">{prod}/data/"))


def linked_data(prod: Path, copy: Path) -> None:
    shutil.rmtree(copy / "data")
    (copy / "data").symlink_to(prod / "data")


def linked_journal(prod: Path, copy: Path) -> None:
    shutil.rmtree(copy / "data/journal")
    (copy / "data/journal").symlink_to(prod / "data/journal")


def pages_elsewhere(prod: Path, copy: Path) -> None:
    without_either(prod, copy)
    file = copy / "etc/broker.xml"
    file.write_text(file.read_text().replace(">data/paging", f">{prod}/data/paging"))


OUTSIDE: list[Change] = [absolute_directories, linked_data, linked_journal, pages_elsewhere]


@pytest.mark.parametrize("change", OUTSIDE)
@pytest.mark.parametrize(
    "command", ["put", "take", *(pytest.param(one, marks=pytest.mark.long) for one in ("compact", "dlq"))]
)
def test_what_lies_outside_is_said_and_not_written_to(
    prod: Path, change: Change, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    copy = prod.parent / "copy"
    shutil.copytree(prod, copy)
    change(prod, copy)
    before = fingerprint(prod)
    call: dict[str, list[str | Path]] = {
        "put": ["put", copy, "DLQ::DLQ", copy / "etc/broker.xml"],
        "take": ["take", copy, "DLQ::DLQ"],
        "compact": ["compact", copy],
        "dlq": ["dlq", "redrive", copy, "DLQ::DLQ"],
    }
    done = journalfs(*call[command])
    assert done.returncode == 1, done.stderr
    assert f"outside of {copy}" in done.stderr
    assert str(prod) in done.stderr
    assert fingerprint(prod) == before
    looked = journalfs("ls", copy)
    assert looked.returncode == 0
    assert f"outside of {copy}" in caplog.text
    assert fingerprint(prod) == before, "nor does looking leave an index there"


@pytest.mark.parametrize("change", OUTSIDE)
def test_each_remedy_for_what_lies_outside_works(prod: Path, change: Change) -> None:
    copy = prod.parent / "copy"
    shutil.copytree(prod, copy)
    change(prod, copy)
    said = put(copy).stderr
    remedies = re.findall(r"give the data directory (\S+) itself|(--config \S+)", said)
    assert remedies
    for folder, config in remedies:
        done = put(Path(folder)) if folder else put(copy, *shlex.split(config))
        assert done.returncode == 0, done.stderr


def moved(prod: Path) -> Path:
    return prod.rename(prod.parent / "moved")


def moved_far(prod: Path) -> Path:
    """Into a container, say, where it has another path."""
    (prod.parent / "mnt/inside").mkdir(parents=True)
    return prod.rename(prod.parent / "mnt/inside/broker")


def made_on_windows(prod: Path) -> Path:
    (prod / "bin/artemis").unlink()
    (prod / "etc/artemis.profile").unlink()
    (prod / "etc/artemis.profile.cmd").write_text('set ARTEMIS_INSTANCE="C:\\brokers\\prod"\r\n')
    (prod / "etc/bootstrap.xml").write_text(BOOTSTRAP.format(etc="///C:/brokers/prod/etc"))
    return moved(prod)


def made_on_windows_by_a_path(prod: Path) -> Path:
    instance = made_on_windows(prod)
    text = '<broker><server configuration="C:\\brokers\\prod\\etc\\broker.xml"/></broker>'
    (instance / "etc/bootstrap.xml").write_text(text)
    return instance


def without_a_bootstrap_target(prod: Path) -> Path:
    instance = moved(prod)
    without_either(prod, instance)
    return instance


@pytest.mark.parametrize(
    "move", [moved, moved_far, made_on_windows, made_on_windows_by_a_path, without_a_bootstrap_target]
)
@pytest.mark.parametrize("absolute", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_moved_instance_is_opened_in_every_way(
    prod: Path, move: Callable[[Path], Path], absolute: bool
) -> None:
    if absolute:
        write_files(prod, f"{prod}/data")
    instance = move(prod)
    broker_xml = instance / "etc/broker.xml"
    ways: list[list[str | Path]] = [
        [instance],
        [instance / "etc"],
        [broker_xml],
        [instance / "data"],
        ["--config", broker_xml, instance / "data"],
        ["--config", broker_xml, instance],
    ]
    for way in ways:
        done = journalfs("ls", *way)
        assert (done.returncode, "DLQ" in done.stdout) == (0, True), (way, done.stderr)
    assert put(instance).returncode == 0
    assert counted(instance) == 1


def test_a_configuration_by_hand_needs_no_start_script(prod: Path) -> None:
    """The script, the profile and bootstrap.xml say nonsense."""
    for name in ("bin/artemis", "etc/artemis.profile", "etc/bootstrap.xml"):
        (prod / name).write_text("'\"`<")
    for way in ([prod / "etc/broker.xml"], ["--config", prod / "etc/broker.xml", prod / "data"]):
        done = journalfs("ls", *way)
        assert (done.returncode, "DLQ" in done.stdout) == (0, True), done.stderr


def test_remedies_where_the_configuration_is_missing(prod: Path, tmp_path: Path) -> None:
    kept = (prod / "etc/broker.xml").rename(tmp_path / "kept.xml")
    done = journalfs("ls", prod)
    assert done.returncode == 6
    assert "--config" in done.stderr
    assert "data directory" in done.stderr
    assert journalfs("ls", "--config", kept, prod / "data").returncode == 0
    assert journalfs("ls", prod / "data").returncode == 0


def test_an_instance_on_its_place_says_nothing(prod: Path) -> None:
    layout = locate_store(prod)
    assert (layout.warnings, layout.outside) == ((), None)


def test_create_makes_no_store_outside(prod: Path) -> None:
    copy = prod.parent / "copy"
    shutil.copytree(prod, copy)
    absolute_directories(prod, copy)
    shutil.rmtree(prod / "data")
    done = journalfs("create", copy)
    assert done.returncode == 1
    assert f"outside of {copy}" in done.stderr
    assert not (prod / "data").exists()
