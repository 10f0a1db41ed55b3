"""Reading broker.xml: values with their places, includes, properties, and mistakes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from journalfs import limits
from journalfs.config.broker_config import BrokerConfig
from journalfs.config.broker_xml import read_broker_xml
from journalfs.config.wildcards import WildcardSyntax
from journalfs.errors import ConfigError, SystemFailure
from tests.frozen import FILE_STORES, ExpectedStores, PristineStores

XI = 'xmlns:xi="http://www.w3.org/2001/XInclude"'


def document(core: str) -> str:
    return (
        "<?xml version='1.0'?>\n"
        '<configuration xmlns="urn:activemq" xmlns:xi="http://www.w3.org/2001/XInclude">\n'
        f'<core xmlns="urn:activemq:core">\n{core}\n</core>\n</configuration>\n'
    )


def read(folder: Path, core: str, **environment: str) -> BrokerConfig:
    file = folder / "etc" / "broker.xml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(document(core))
    return read_broker_xml(file, instance=folder, environment=environment)


def settings(inside: str) -> str:
    return f"<address-settings>\n{inside}\n</address-settings>"


def test_core_values(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "<name>here</name>\n<journal-type>MAPPED</journal-type>\n<journal-file-size>512K</journal-file-size>\n"
        "<journal-directory>data/j</journal-directory>\n<bindings-directory>/var/b/../c</bindings-directory>",
    )
    assert config.broker_name == "here"
    assert config.core_value("journal-file-size") == 524_288
    assert config.core["journal-file-size"].line == 6
    assert config.directory("journal-directory") == tmp_path / "data" / "j"
    assert config.directory("bindings-directory") == Path("/var/c")
    assert config.directory("paging-directory") == tmp_path / "data" / "paging"
    assert config.core_value("journal-buffer-timeout") == 3_333_333
    assert not config.warnings
    assert config.database is None


def test_defaults_depend_on_the_journal_type(tmp_path: Path) -> None:
    config = read(tmp_path, "")
    assert config.core_value("journal-type") == "ASYNCIO"
    assert config.core_value("journal-buffer-timeout") == 500_000
    assert config.core_value("journal-max-io") == 4096
    assert config.core_value("node-manager-lock-directory") is None


@pytest.mark.parametrize("name", FILE_STORES)
def test_configurations_of_real_stores(name: str, stores: PristineStores, expected: ExpectedStores) -> None:
    config = read_broker_xml(stores[name] / "broker.xml", instance=stores[name], environment={})
    assert config.broker_name == name
    assert config.core_value("journal-type") == expected[name]["made"]["journalType"]
    assert config.address_settings[0].match == "#"
    assert not config.warnings


def test_address_settings(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        settings(
            '<address-setting match="a.#">\n<max-size-bytes>1M</max-size-bytes>\n'
            "<last-value-queue>true</last-value-queue>\n<prefetch-page-bytes>-1</prefetch-page-bytes>\n"
            '</address-setting>\n<address-setting match="a.#"/>\n'
            '<address-setting match="b"><from-the-future>1</from-the-future></address-setting>'
        ),
    )
    first, second = config.address_settings
    values = {name: (configured.value, configured.line) for name, configured in first.values.items()}
    assert values == {"max-size-bytes": (1_048_576, 6), "default-last-value-queue": (True, 7)}
    assert (second.match, second.values) == ("b", {})
    unknown, repeated = config.warnings
    assert "broker.xml:10: a second address-setting for 'a.#'" in repeated
    assert "broker.xml:11: from-the-future: is not known as a setting of addresses" in unknown


@pytest.mark.parametrize(
    ("core", "line", "reason"),
    [
        ("<journal-file-size>\nbig</journal-file-size>", 4, "journal-file-size: 'big' is no size"),
        ("<journal-type>nio</journal-type>", 4, "journal-type: 'nio' is none of NIO, ASYNCIO, MAPPED"),
        ("\n<journal-min-files>0</journal-min-files>", 5, "journal-min-files: 0 is below 2"),
        (settings("<address-setting/>"), 5, 'address-setting: needs match="..."'),
        (settings('<address-setting match="#.a"/>'), 5, "'#' may stand at the end only"),
        (
            settings('<address-setting match="a">\n<no-expiry>maybe</no-expiry></address-setting>'),
            6,
            "no-expiry: 'maybe' is neither true nor false",
        ),
        ("<literal-match-markers>(</literal-match-markers>", 4, "must be two characters"),
        ("<open>", 5, "not well-formed"),
        ('<xi:include href="missing.xml"/>', 4, "there is no file"),
        ('<xi:include href="http://example.org/a.xml"/>', 4, "is not a file on this machine"),
    ],
)
def test_mistakes_have_a_place(tmp_path: Path, core: str, line: int, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, core)
    assert caught.value.line == line
    assert f"broker.xml:{line}: " in str(caught.value)
    assert reason in str(caught.value)


def test_no_core(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text("<web/>")
    with pytest.raises(ConfigError, match="there is no <core> element"):
        read_broker_xml(file, instance=tmp_path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SystemFailure, match=r"broker\.xml: cannot read: No such file"):
        read_broker_xml(tmp_path / "broker.xml", instance=tmp_path)


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY a SYSTEM "picture.gif" NDATA gif>',
        '<!ENTITY % a "<!ELEMENT name ANY>"> %a;',
        '<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;',
    ],
)
def test_entities_are_refused(tmp_path: Path, declaration: str) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(f"<!DOCTYPE core\n[{declaration}]>\n<core><name>&a;</name></core>")
    with pytest.raises(ConfigError, match=r"broker\.xml:2: entity declarations are refused"):
        read_broker_xml(file, instance=tmp_path)


@pytest.mark.parametrize("directory", ["b", "b&a;"])
def test_a_document_type_elsewhere_is_not_fetched(tmp_path: Path, directory: str) -> None:
    (tmp_path / "core.dtd").write_text('<!ENTITY a "fetched">')
    file = tmp_path / "broker.xml"
    element = f"<journal-directory>{directory}</journal-directory>"
    file.write_text(f'<!DOCTYPE core SYSTEM "core.dtd">\n<core>{element}</core>')
    assert read_broker_xml(file, instance=tmp_path).core_value("journal-directory") == "b"


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        read(tmp_path, "<a>" * 100 + "</a>" * 100)


def test_properties(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "<name>${BROKER_NAME}</name>\n<journal-directory>${data.dir}/journal</journal-directory>\n"
        "<bindings-directory>${nowhere:data/bindings}</bindings-directory>\n"
        "<paging-directory>${artemis.instance}/${missing}/p</paging-directory>\n"
        "<journal-pool-files>${a:${b}}</journal-pool-files>".replace("${a:${b}}", "${POOL}"),
        BROKER_NAME="from the environment",
        POOL="${REAL_POOL:7}",
    )
    assert config.broker_name == "from the environment"
    assert config.directory("journal-directory") == tmp_path / "data" / "journal"
    assert config.directory("bindings-directory") == tmp_path / "data" / "bindings"
    assert config.directory("paging-directory") == tmp_path / "p"
    assert config.core_value("journal-pool-files") == 7
    [warning] = config.warnings
    assert "broker.xml:7: ${missing} is not known here" in warning


def test_a_property_that_means_itself_ends(tmp_path: Path) -> None:
    assert read(tmp_path, "<name>${LOOP}</name>", LOOP="${LOOP}").broker_name == "${LOOP}"


def test_includes(tmp_path: Path) -> None:
    parts = tmp_path / "etc" / "parts"
    parts.mkdir(parents=True)
    (parts / "all.xml").write_text(
        f'<address-settings {XI}><xi:include href="more settings.xml"/><address-setting match="b"/>'
        "</address-settings>"
    )
    (parts / "more settings.xml").write_text(
        '<address-settings>\n<address-setting match="a"><no-expiry>true</no-expiry></address-setting>\n'
        "</address-settings>"
    )
    config = read(tmp_path, '<xi:include href="${artemis.instance.etc.uri}parts/all.xml"/>')
    assert [setting.match for setting in config.address_settings] == ["a", "b"]
    included = config.address_settings[0].values["no-expiry"]
    assert (Path(included.file).name, included.line) == ("more settings.xml", 2)


CORE = '<core xmlns="urn:activemq:core"><name>included</name></core>'


@pytest.mark.parametrize(
    "include",
    [
        '<xi:include href="missing.xml"><xi:fallback><name>included</name></xi:fallback></xi:include>',
        '<xi:include href="http://x/y"><xi:fallback><name>included</name></xi:fallback></xi:include>',
        '<name><xi:include href="name.txt" parse="text"/></name>',
        '<name><xi:include href="x" parse="text"><xi:fallback>included</xi:fallback></xi:include></name>',
        '<xi:include href="core.xml" xpointer="element(/1/1)"/>',
        '<xi:include href="core.xml" xpointer="xmlns(a=urn:activemq:core)xpointer(//a:name)"/>',
        '<xi:include href="etc/core.xml" xpointer="element(/1/1)"/>',
        "<name>${WHO}<!-- ${unknown} --></name>",
        '<xi:include href="property.xml"/>',
    ],
)
def test_ways_to_include(tmp_path: Path, include: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "name.txt").write_text("included")
    (tmp_path / "etc" / "core.xml").write_text(CORE)
    (tmp_path / "etc" / "property.xml").write_text("<name>${WHO}</name>")
    config = read(tmp_path, include, WHO="included")
    assert (config.broker_name, config.warnings) == ("included", ())


@pytest.mark.parametrize("depth", [1, 2])
def test_a_root_that_is_an_include(tmp_path: Path, depth: int) -> None:
    (tmp_path / "core.xml").write_text(CORE)
    (tmp_path / "again.xml").write_text(f'<xi:include {XI} href="core.xml"/>')
    file = tmp_path / "broker.xml"
    file.write_text(f'<xi:include {XI} href="{"core.xml" if depth == 1 else "again.xml"}"/>')
    config = read_broker_xml(file, instance=tmp_path)
    assert config.broker_name == "included"


def test_what_is_included_is_a_file_of_bounded_size(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc" / "pipe")
    with (tmp_path / "etc" / "large").open("wb") as large:
        large.truncate(limits.BROKER_XML_BYTES_MAX + 1)
    for name in ("pipe", "large"):
        for parse in ("xml", "text"):
            with pytest.raises(ConfigError):
                read(tmp_path, f'<xi:include href="{name}" parse="{parse}"/>')


def test_includes_that_double_each_time_are_refused(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    for n in range(20):
        twice = f'<xi:include href="{n + 1}.xml"/>' * 2
        (tmp_path / "etc" / f"{n}.xml").write_text(f"<a {XI}>{twice}</a>")
    (tmp_path / "etc" / "20.xml").write_text("<a/>")
    with pytest.raises(ConfigError, match="more than 64 files"):
        read(tmp_path, '<xi:include href="0.xml"/>')


def test_circular_includes_end(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "a.xml").write_text(f'<a {XI}><xi:include href="a.xml"/></a>')
    with pytest.raises(ConfigError, match="do they go in circles"):
        read(tmp_path, '<xi:include href="a.xml"/>')


def test_wildcards_markers_and_store(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "<wildcard-addresses><delimiter>/</delimiter><any-words>></any-words></wildcard-addresses>"
        "<literal-match-markers>()</literal-match-markers><uuid-namespace>tmp</uuid-namespace>"
        "<store><database-store><jdbc-user>x</jdbc-user>"
        "<jdbc-connection-url>jdbc:mysql://h/d</jdbc-connection-url></database-store></store>"
        '<journal-retention-directory period="1">data/history</journal-retention-directory>',
    )
    assert config.wildcards == WildcardSyntax(delimiter="/", any_words=">", single_word="*")
    assert config.literal_markers == "()"
    assert config.uuid_namespace == "tmp"
    assert config.database is not None
    assert config.retention_directory == "data/history"


PROPERTIES = """
# a comment
journalDirectory = ${data.dir}/fast
journal\\
  FileSize=1M
journalType:NIO
journalMaxIO_NIO 7
journalBufferTimeout_AIO=9
addressSettings."orders.#".maxDeliveryAttempts=3
addressSettings."#".deadLetterAddress=D\\u004cQ
securityRoles.a.b.send=true
fromTheFuture=1
"""


def test_properties_overrule_it(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "broker.properties").write_text(PROPERTIES)
    config = read(
        tmp_path, settings('<address-setting match="#"><no-expiry>true</no-expiry></address-setting>')
    )
    assert config.directory("journal-directory") == tmp_path / "data" / "fast"
    assert config.core_value("journal-file-size") == 1_048_576
    assert config.core_value("journal-max-io") == 7
    assert config.core_value("journal-buffer-timeout") == 3_333_333, "that of the other kind"
    values = {
        one.match: {name: found.value for name, found in one.values.items()}
        for one in config.address_settings
    }
    assert values == {
        "#": {"no-expiry": True, "dead-letter-address": "DLQ"},
        "orders.#": {"max-delivery-attempts": 3},
    }
    (warning,) = config.warnings
    assert "broker.properties:12: fromTheFuture is not known" in warning


def test_a_property_that_no_broker_takes(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "broker.properties").write_text("name=x\njournalFileSize=big\n")
    with pytest.raises(ConfigError, match=r"broker.properties:2: journalFileSize: 'big' is no size"):
        read(tmp_path, "")


@pytest.mark.rule("S-380")
def test_an_address_gives_all_its_id_cache_size(tmp_path: Path) -> None:
    """A broker takes the first element of that name in the file."""
    of_address = (
        '<address-settings><address-setting match="a"><id-cache-size>222</id-cache-size>'
        "</address-setting></address-settings>"
    )
    for core, expected, told in (
        (of_address, 222, True),
        (f"{of_address}<id-cache-size>111</id-cache-size>", 222, True),
        (f"<id-cache-size>111</id-cache-size>{of_address}", 111, False),
    ):
        config = read(tmp_path, core)
        assert config.core_value("id-cache-size") == expected
        assert any("id-cache-size of an address" in one for one in config.warnings) is told


@pytest.mark.rule("S-380")
def test_elements_with_a_prefix_are_not_seen(tmp_path: Path) -> None:
    core = (
        '<a:journal-min-files xmlns:a="urn:activemq:core">7</a:journal-min-files>'
        '<address-settings><a:address-setting xmlns:a="urn:activemq:core" match="x"/>'
        '<address-setting match="y"><a:max-delivery-attempts xmlns:a="urn:activemq:core">3'
        "</a:max-delivery-attempts></address-setting></address-settings>"
    )
    config = read(tmp_path, core)
    assert config.core_value("journal-min-files") == 2
    assert [(one.match, dict(one.values)) for one in config.address_settings] == [("y", {})]
    assert sum("has a prefix" in one for one in config.warnings) == 3


@pytest.mark.rule("S-380")
@pytest.mark.parametrize(
    ("core", "name", "expected"),
    [
        ("<disk-scan-period>-1</disk-scan-period>", "disk-scan-period", -1),
        ("<journal-min-files>+5</journal-min-files>", "journal-min-files", 5),
        ("<journal-file-size>+20480</journal-file-size>", "journal-file-size", 20480),
    ],
)
def test_numbers_as_a_broker_reads_them(tmp_path: Path, core: str, name: str, expected: int) -> None:
    assert read(tmp_path, core).core_value(name) == expected


@pytest.mark.rule("S-380")
@pytest.mark.parametrize(
    "core",
    [
        "<disk-scan-period>0</disk-scan-period>",
        "<disk-scan-period>-2</disk-scan-period>",
        "<journal-min-files>1_0</journal-min-files>",
        "<journal-file-size>+20K</journal-file-size>",
        '<address-settings><address-setting match="x"><redelivery-delay-multiplier>1_0'
        "</redelivery-delay-multiplier></address-setting></address-settings>",
    ],
)
def test_numbers_that_no_broker_reads(tmp_path: Path, core: str) -> None:
    with pytest.raises(ConfigError):
        read(tmp_path, core)


@pytest.mark.rule("S-380")
def test_an_empty_match_is_for_no_address(tmp_path: Path) -> None:
    core = '<address-settings><address-setting match=""><max-delivery-attempts>3</max-delivery-attempts>'
    config = read(tmp_path, f"{core}</address-setting></address-settings>")
    assert [one.match for one in config.address_settings] == [""]
    assert any('match=""' in one for one in config.warnings)
