"""journalfs.toml: values with their lines, what it overrules, and mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from journalfs.config.address_settings import Value
from journalfs.config.core_settings import CORE_SETTINGS
from journalfs.config.database import DatabaseStore
from journalfs.config.in_force import SettingsInForce, settings_toml
from journalfs.config.journal_settings import journal_settings
from journalfs.config.journalfs_toml import parse_setting, read_journalfs_toml, settings_text
from journalfs.config.layout import locate_store, plan_store
from journalfs.config.wildcards import WildcardSyntax
from journalfs.errors import ConfigError, NotAStore, WrongCall
from tests.config.test_broker_xml import read, settings


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "journalfs.toml"
    file.write_text(text)
    return file


def a_journal(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "activemq-data-1.amq").write_bytes(bytes(8))


def test_values_have_lines(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '# mine\njournal-type = "NIO"\n"journal-file-size" = "1M"\njournal-min-files=3 # files\n'
        'journal-datasync = false\n\n[address-settings."orders.#"]\nmax-size-bytes = "2 KiB"\n'
        "redelivery-delay-multiplier = 2\n[address-settings.'x']\nno-expiry = true\n",
    )
    config = read_journalfs_toml(file)
    assert {name: (found.value, found.line) for name, found in config.core.items()} == {
        "journal-type": ("NIO", 2),
        "journal-file-size": (1_048_576, 3),
        "journal-min-files": (3, 4),
        "journal-datasync": (False, 5),
    }
    orders, other = config.address_settings
    assert (orders.match, orders.line, other.match, other.line) == ("orders.#", 7, "x", 10)
    values = {name: (found.value, found.line) for name, found in orders.values.items()}
    assert values == {"max-size-bytes": (2048, 8), "redelivery-delay-multiplier": (2, 9)}
    assert {found.file for found in config.core.values()} == {str(file)}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("\njournal-typ = 1", 2, "journal-typ: there is no setting 'journal-typ'; did you mean 'journal-typ"),
        ('journal-type = "AIO"', 1, 'journal-type: \'AIO\' is not one of "NIO", "ASYNCIO", "MAPPED"'),
        ("journal-type = 3", 1, 'journal-type: 3 is not one of "NIO"'),
        ('journal-file-size = "10 X"', 1, "journal-file-size: '10 X' is no size"),
        ("journal-file-size = 1.5", 1, "journal-file-size: 1.5 is not a number of bytes"),
        ("journal-file-size = 10", 1, "journal-file-size: 10 is below 1024"),
        ("\n\njournal-pool-files = 0", 3, "journal-pool-files: 0 would be none at all"),
        ('journal-min-files = "2"', 1, "journal-min-files: '2' is not a whole number"),
        ("journal-min-files = true", 1, "journal-min-files: True is not a whole number"),
        ('journal-datasync = "true"', 1, "journal-datasync: 'true' is not true or false (without quotes)"),
        ("journal-directory = 1", 1, "journal-directory: 1 is not text in quotes"),
        ("a = ", 1, "is not TOML: Invalid value"),
        ("journal-min-files = 2\njournal-min-files = 2", 2, "is not TOML: Cannot overwrite a value"),
        ("address-settings = 1", 1, "address-settings: is a table of matches"),
        ("[address-settings]\nx = 1", 2, 'x: is a table: [address-settings."x"]'),
        ('[address-settings."a.#.b"]', 1, "a.#.b: '#' may stand at the end only"),
        ('[address-settings."a"]\nno-expire = true', 2, "no-expire: there is no setting 'no-expire'; did"),
        ('[address-settings."a"]\nno-expiry = 1', 2, "no-expiry: 1 is not true or false"),
        (
            "max-delivery-attempts = 1",
            1,
            "max-delivery-attempts: 'max-delivery-attempts' is a setting of addresses: set it under [addr",
        ),
        (
            '[address-settings."a"]\njournal-type = "NIO"',
            2,
            "journal-type: 'journal-type' is a setting of the whole store",
        ),
        ('[journal]\ntype = "NIO"', 1, "journal: there is no setting 'journal'"),
        ('wildcard-addresses = "/"', 1, "wildcard-addresses: is a table: [wildcard-addresses]"),
        (
            '[wildcard-addresses]\ndelimeter = "/"',
            2,
            "delimeter: there is no setting 'delimeter'; did you me",
        ),
        ('[wildcard-addresses]\ndelimiter = "//"', 2, "delimiter: '//' is not one character"),
        ("[wildcard-addresses]\nany-words = 1", 2, "any-words: 1 is not one character"),
        ("[wildcard-addresses]\nrouting-enabled = 1", 2, "routing-enabled: 1 is not true or false"),
        (
            '\n[wildcard-addresses]\ndelimiter = "*"',
            2,
            "wildcard-addresses: needs three different characters",
        ),
    ],
)
def test_mistakes_have_a_place(tmp_path: Path, text: str, line: int, reason: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_journalfs_toml(file)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{file}:{line}: {reason}")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    file.write_bytes(b"a = 1\nb = '\xff'\n")
    with pytest.raises(ConfigError, match=r"journalfs\.toml:2: is not UTF-8 text"):
        read_journalfs_toml(file)


def test_a_text_that_looks_like_a_key(tmp_path: Path) -> None:
    file = written(tmp_path, 'journal-directory = """\n"journal-min-files = 0\n"""\njournal-min-files = 5')
    config = read_journalfs_toml(file)
    assert config.core["journal-min-files"].value == 5
    assert config.core["journal-directory"].line == 1


def test_it_overrules_broker_xml(tmp_path: Path) -> None:
    base = read(
        tmp_path,
        "<journal-type>NIO</journal-type><journal-min-files>3</journal-min-files>"
        + settings(
            '<address-setting match="a"><max-size-bytes>1</max-size-bytes><no-expiry>true</no-expiry>'
            '</address-setting>\n<address-setting match="b"><max-size-bytes>2</max-size-bytes>'
            "</address-setting>"
        ),
    )
    file = written(tmp_path / "data", 'journal-min-files = 4\n[address-settings."a"]\nmax-size-bytes = 9\n')
    config = read_journalfs_toml(file, base)
    chosen = journal_settings(config)
    assert (chosen.journal_type, chosen.min_files) == ("NIO", 4)
    in_force = SettingsInForce(config, {})
    origins = {setting.name: (setting.value, setting.origin) for setting in in_force.core()}
    assert origins["journal-min-files"] == (4, "journalfs.toml")
    assert origins["journal-type"] == ("NIO", "broker.xml")
    of_a = {setting.name: (setting.value, setting.origin) for setting in in_force.address("a")}
    assert of_a["max-size-bytes"] == (9, "journalfs.toml match 'a'")
    assert of_a["no-expiry"] == (False, "default"), "a match is overruled as a whole"
    assert in_force.value("b", "max-size-bytes") == 2


def test_wildcards_have_other_characters(tmp_path: Path) -> None:
    base = read(tmp_path, "<wildcard-addresses><any-words>></any-words></wildcard-addresses>")
    text = '[address-settings."a/>"]\nno-expiry = true\n[wildcard-addresses]\ndelimiter = "/"\n'
    config = read_journalfs_toml(written(tmp_path / "data", text), base)
    assert config.wildcards == WildcardSyntax(delimiter="/", any_words=">")
    assert SettingsInForce(config, {}).value("a/b/c", "no-expiry") is True
    with pytest.raises(ConfigError, match="'>' may stand at the end only"):
        read_journalfs_toml(written(tmp_path / "data", '[address-settings."a.>.b"]'), base)


def test_what_settings_toml_shows_can_be_read(tmp_path: Path) -> None:
    shown = settings_toml(SettingsInForce(None, {}).core())
    config = read_journalfs_toml(written(tmp_path, shown))
    assert {name: found.value for name, found in config.core.items()} == {
        setting.name: setting.value
        for setting in SettingsInForce(None, {}).core()
        if setting.value is not None
    }


def test_settings_survive_being_written(tmp_path: Path) -> None:
    chosen: dict[str, Value] = {
        "journal-type": "MAPPED",
        "journal-file-size": 4096,
        "journal-datasync": False,
    }
    config = read_journalfs_toml(written(tmp_path, settings_text(chosen)))
    assert {name: found.value for name, found in config.core.items()} == chosen


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("journal-file-size=1M", 1_048_576),
        ("journal-datasync=false", False),
        ("journal-directory=a=b", "a=b"),
        ("journal-pool-files = -1", -1),
    ],
)
def test_settings_on_a_command_line(assignment: str, value: Value) -> None:
    assert parse_setting(assignment) == (None, re.split(" *=", assignment)[0], value)


@pytest.mark.parametrize(
    ("assignment", "match", "value"),
    [
        ("orders.#:max-delivery-attempts=3", "orders.#", 3),
        ("#:dead-letter-address=a:b=c", "#", "a:b=c"),
        ("a::b:expiry-address=", "a::b", ""),
    ],
)
def test_settings_of_addresses_on_a_command_line(assignment: str, match: str, value: Value) -> None:
    found = parse_setting(assignment)
    assert (found[0], found[2]) == (match, value)


@pytest.mark.parametrize(
    ("assignment", "reason"),
    [
        ("journal-fil-size=1M", "there is no setting 'journal-fil-size'; did you mean 'journal-file-size'?"),
        ("journal-file-size", "journal-file-size: give it as journal-file-size=VALUE"),
        ("#:journal-file-size=1M", "is a setting of the whole store"),
        (":max-delivery-attempts=1", "give it as MATCH:max-delivery-attempts=VALUE"),
        ("max-delivery-attempts=1", "as MATCH:max-delivery-attempts=VALUE"),
        ("journal-file-size=x", "journal-file-size: 'x' is no size"),
        ("journal-pool-files=0", "journal-pool-files: 0 would be none"),
    ],
)
def test_mistakes_on_a_command_line(assignment: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_setting(assignment)


@pytest.mark.parametrize("inside", ["", "journal", "journalfs.toml"])
def test_a_data_directory_with_settings(tmp_path: Path, inside: str) -> None:
    data = tmp_path / "store"
    a_journal(data / "journal")
    written(data, "journal-min-files = 7")
    layout = locate_store(data / inside)
    assert (layout.root, layout.broker_xml) == (data, None)
    assert journal_settings(layout.config).min_files == 7


def test_directories_are_relative_to_the_file(tmp_path: Path) -> None:
    data = tmp_path / "store"
    a_journal(tmp_path / "fast" / "j")
    written(
        data,
        'journal-directory = "../fast/./j"\nbindings-directory = "b"\npaging-directory = "/p"\n'
        'large-messages-directory = "l"\njournal-retention-directory = "r"\n',
    )
    layout = locate_store(data)
    assert (layout.root, layout.journal_dir) == (data, tmp_path / "fast" / "j")
    assert layout.node_manager_lock_dir == layout.journal_dir
    assert (layout.bindings_dir, layout.paging_dir) == (data / "b", Path("/p"))
    assert (layout.large_dir, layout.retention_dir) == (data / "l", data / "r")
    written(data, f'journal-directory = "{tmp_path}/fast/j"\nnode-manager-lock-directory = "locks"\n')
    assert locate_store(data).node_manager_lock_dir == data / "locks"


def test_settings_without_a_store(tmp_path: Path) -> None:
    written(tmp_path, "journal-min-files = 7")
    with pytest.raises(NotAStore, match="no journal files in"):
        locate_store(tmp_path)
    planned = plan_store(tmp_path)
    assert (planned.root, planned.journal_dir) == (tmp_path, tmp_path / "journal")
    assert journal_settings(planned.config).min_files == 7


def test_a_store_is_planned_where_broker_xml_says(tmp_path: Path) -> None:
    read(tmp_path, "<journal-directory>data/fast</journal-directory>")
    (tmp_path / "log").mkdir()
    planned = plan_store(tmp_path)
    assert planned.journal_dir == tmp_path / "data" / "fast"
    assert planned.bindings_dir == tmp_path / "data" / "bindings"
    assert planned.large_dir == tmp_path / "data" / "largemessages"


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["journal/activemq-data-1.amq"], "there is a store already"),
        (["bindings/activemq-bindings-1.bindings"], "there is a store already"),
        (["notes.txt"], "the directory is not empty: it holds 'notes.txt'"),
        (["journal/x"], "the directory is not empty: it holds 'journal'"),
    ],
)
def test_where_no_store_is_planned(tmp_path: Path, names: list[str], reason: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(WrongCall, match=re.escape(reason)):
        plan_store(tmp_path)


def test_no_store_is_planned_for_a_database(tmp_path: Path) -> None:
    url = "<jdbc-connection-url>jdbc:sqlite:/nowhere.db</jdbc-connection-url>"
    read(tmp_path, f"<store><database-store>{url}</database-store></store>")
    with pytest.raises(DatabaseStore, match="a store in a database"):
        plan_store(tmp_path)


def test_every_setting_can_be_set(tmp_path: Path) -> None:
    """Names, kinds and bounds of the table accept the defaults of the table."""
    for definition in CORE_SETTINGS:
        if definition.default is not None:
            text = settings_text({definition.name: definition.default})
            assert read_journalfs_toml(written(tmp_path, text)).core[definition.name].line == 1
