"""Exports and imports in the forms of the brokers' own tools, compared with what those tools wrote."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journalfs.errors import EXIT_DAMAGED
from tests.exchange.exported import by_queue, read_xml, unpacked
from tests.frozen import PristineStores
from tests.mounting import JOURNALFS, journalfs, mounted_for_writing

LINES = ("orders-basic", "transactions")


def run(*arguments: str | Path, code: int = 0) -> str:
    done = journalfs(*arguments)
    assert done.returncode == code, done.stderr
    return done.stdout


def envelopes(store: Path) -> list[dict[str, Any]]:
    """All messages but for the ids that a store gave them."""
    found = [json.loads(line) for line in run("cat", "--no-index", store).splitlines()]
    for one in found:
        del one["id"]
    return found


@pytest.mark.rule("S-217")
@pytest.mark.parametrize("name", LINES)
def test_encoded_lines_are_those_of_the_broker(stores: PristineStores, tmp_path: Path, name: str) -> None:
    out = tmp_path / "lines"
    run("export", "--format", "lines", stores[name] / "data", out)
    assert out.read_bytes() == unpacked(f"{name}.lines.zst")


@pytest.mark.rule("S-217")
@pytest.mark.parametrize(
    ("what", "arguments"),
    [
        ("data.txt", ()),
        pytest.param(
            "bindings.txt",
            ("--extension", "bindings", "--directory", "bindings"),
            marks=pytest.mark.long,
        ),
        pytest.param("jms.txt", ("--extension", "jms", "--directory", "bindings"), marks=pytest.mark.long),
    ],
)
def test_encoded_lines_are_those_of_hornetq(
    stores: PristineStores, tmp_path: Path, what: str, arguments: tuple[str, ...]
) -> None:
    store, out = stores["hq-2.4-main"], tmp_path / "lines"
    given = [str(store / one) if one == "bindings" and at == 3 else one for at, one in enumerate(arguments)]
    run("export", "--format", "lines", *given, store, out)
    assert out.read_bytes() == (store.parent / "export" / "hq-2.4-main" / what).read_bytes()


@pytest.mark.rule("S-217")
@pytest.mark.parametrize("name", [LINES[0], pytest.param(LINES[1], marks=pytest.mark.long)])
def test_encoded_lines_become_a_journal_with_the_same_messages(
    store_copy: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    data = store_copy(name) / "data"
    before = run("cat", "--no-index", data)
    lines = tmp_path / "lines"
    run("export", "--format", "lines", data, lines)
    for path in (data / "journal").glob("*.amq"):
        path.unlink()
    run("import", "--format", "lines", "--file-size", "1M", lines, data / "journal")
    assert run("cat", "--no-index", data) == before


@pytest.mark.rule("S-218")
@pytest.mark.parametrize(
    "name",
    [
        *LINES,
        *(pytest.param(one, marks=pytest.mark.long) for one in ("compacted", "retention", "aio", "mapped")),
    ],
)
def test_xml_is_that_of_the_broker(stores: PristineStores, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out.xml"
    code = EXIT_DAMAGED if name == "transactions" else 0  # what prepared ones sent is in no queue
    run("export", "--format", "xml", stores[name] / "data", out, code=code)
    assert read_xml(out.read_bytes()) == read_xml(unpacked(f"{name}.exp.xml.zst"))


KEPT_WHOLE = {"29", "66"}
"""Of several sections, which the broker cuts down to the first."""
OTHER_ORDER = {"33", "136"}
"""Maps: the broker writes their entries in the order of their hashes."""


def compared(found: dict[str, list[Any]], amqp: set[str]) -> dict[str, list[Any]]:
    """Without user ids that the broker draws anew in each export, and with line ends in values as any reader
    of XML gets the broker's, which are not escaped.
    """
    made = {}
    for name, ((attributes, properties, queues, body, large), *others) in found.items():
        assert others == []
        drawn = {"user-id": "drawn"} if name in amqp and "user-id" in attributes else {}
        plain = [tuple((key, re.sub("[\n\t]", " ", value)) for key, value in one) for one in properties]
        same = bytes(sorted(body)) if name in OTHER_ORDER else body
        made[name] = [attributes | drawn, plain, queues, same, large]
    return made


@pytest.mark.rule("S-218")
def test_messages_of_other_protocols_in_xml(stores: PristineStores, tmp_path: Path) -> None:
    name = "amqp-mqtt-stomp-openwire"
    out = tmp_path / "out.xml"
    run("export", "--format", "xml", stores[name] / "data", out)
    ours, bindings = read_xml(out.read_bytes())
    theirs, wanted = read_xml(unpacked(f"{name}.exp.xml.zst"))
    assert bindings == wanted
    amqp = amqp_ids(stores[name] / "data")
    here, there = compared(ours, amqp), compared(theirs, amqp)
    for one in KEPT_WHOLE:
        whole, first = here[one][3], there[one][3]
        assert whole.startswith(first)
        assert len(whole) > len(first)
        here[one][3] = first
    assert here == there


def amqp_ids(data: Path) -> set[str]:
    found = (json.loads(line) for line in run("cat", "--no-index", data).splitlines())
    return {str(one["id"]) for one in found if one.get("protocol") == "AMQP"}


@pytest.mark.rule("S-218")
@pytest.mark.long
def test_large_and_paged_messages_in_xml(stores: PristineStores, tmp_path: Path) -> None:
    """The truth holds a hash of each message. The broker's export has 173 messages for a queue that has
    acknowledged them, one of them in no other, and lacks ten behind a page that is missing.
    """
    out = tmp_path / "out.xml"
    run("export", "--format", "xml", stores["large-and-paged"] / "data", out)
    ours = compared(read_xml(out.read_bytes())[0], amqp_ids(stores["large-and-paged"] / "data"))
    ours["114"][3] = ours["114"][3][:300_000]  # of two sections
    theirs = json.loads(unpacked("large-and-paged.exp.json.zst"))
    assert ours.keys() - theirs.keys() == {str(one) for one in range(2546, 2556)}
    assert theirs.keys() - ours.keys() == {"1267"}
    differing = [one for one in ours.keys() & theirs.keys() if list(digest(ours[one])) != theirs[one]]
    acknowledged = [one for one in differing if "events.b" in ours[one][2]]
    assert differing == acknowledged
    for one in differing:
        ours[one][2] = ["events.a", "events.b"]
        assert list(digest(ours[one])) == theirs[one]


def digest(message: list[Any]) -> tuple[str, int]:
    attributes, properties, queues, body, large = message
    said = repr((sorted(attributes.items()), properties, queues, sorted(large.items()))).encode()
    return hashlib.blake2b(said + body, digest_size=12).hexdigest(), len(body)


@pytest.mark.rule("S-218")
def test_the_broker_s_xml_is_imported(tmp_path: Path) -> None:
    """Messages that come out of an import are those that went in, each in its queues."""
    document, store, out = tmp_path / "in.xml", tmp_path / "store", tmp_path / "out.xml"
    document.write_bytes(unpacked("orders-basic.exp.xml.zst"))
    run("create", store)
    run("import", document, store)
    run("export", "--format", "xml", store, out)
    there, _ = read_xml(document.read_bytes())
    here, _ = read_xml(out.read_bytes())

    # A character without a type is what the brokers' importer leaves out, too.
    def own(messages: dict[str, list[Any]]) -> list[Any]:
        return [
            (*one[:2], [entry for entry in one[2] if dict(entry)["name"] != "nul"], one[3])
            for one in by_queue(messages)
        ]

    assert own(here) == own(there)


@pytest.mark.rule("S-219")
@pytest.mark.parametrize(
    "form", ["jsonl", *(pytest.param(one, marks=pytest.mark.long) for one in ("parquet", "xml"))]
)
def test_what_is_exported_can_be_imported(stores: PristineStores, tmp_path: Path, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    source, store = stores["amq-5.4-clean"], tmp_path / "store"
    out = tmp_path / f"out.{form}"
    # What prepared transactions sent is in no queue, so it is in no export, which says so.
    run("export", "--derived", tmp_path / "derived", "--format", form, source, out, code=EXIT_DAMAGED)
    run("create", store)
    said = run("import", out, store)
    wanted = [json.loads(line) for line in run("cat", "--derived", tmp_path / "derived", source).splitlines()]
    for one in wanted:
        del one["id"]
    assert f"{len(wanted)} messages" in said
    found = envelopes(store)
    if form == "xml":  # a char has no type there
        assert len(found) == len(wanted)
    else:
        assert sorted(map(str, found)) == sorted(map(str, wanted))


@pytest.mark.rule("S-219")
@pytest.mark.mount
def test_into_a_mounted_store(stores: PristineStores, tmp_path: Path) -> None:
    out, data, mountpoint = tmp_path / "out.jsonl", tmp_path / "store", tmp_path / "mnt"
    run("export", stores["aio"] / "data", out)
    run("create", data)
    mountpoint.mkdir()
    with mounted_for_writing(data, mountpoint):
        run("import", out, mountpoint)
        there = run("export", mountpoint, "-")
    assert len(there.splitlines()) == len(out.read_text().splitlines()) > 0


def test_mistakes_are_told(tmp_path: Path) -> None:
    store = tmp_path / "store"
    run("create", store)
    for name, content, word in (
        ("bad.xml", b"<activemq-journal><messages>", "no element found"),
        ("doctype.xml", b"<!DOCTYPE x [<!ENTITY a 'b'>]><activemq-journal/>", "declares no types"),
        ("bad.jsonl", b'{"address":"a"}\n', "queue"),
        ("silent", b"", "--format"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        done = journalfs("import", path, store)
        assert done.returncode != 0
        assert word in done.stderr
        assert "Traceback" not in done.stderr
    kept = tmp_path / "kept.jsonl"
    kept.write_text("mine")
    done = journalfs("export", store, kept)
    assert "--overwrite" in done.stderr
    assert kept.read_text() == "mine"


@pytest.mark.parametrize("file_format", ["lines", "jsonl", "xml"])
def test_what_cannot_be_written_is_said(stores: PristineStores, file_format: str) -> None:
    """Also where another thread notices it, while the next bytes are made."""
    with Path("/dev/full").open("wb") as full:
        command: list[str | Path] = [
            JOURNALFS,
            "export",
            "--format",
            file_format,
            stores["large-and-paged"],
            "-",
        ]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (2, b"journalfs: No space left on device\n")
