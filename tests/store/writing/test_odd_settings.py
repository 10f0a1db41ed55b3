"""What is odd about the settings of a store is told when it is opened for writing, and by `check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from journalfs.store.write.store import WritingStore
from tests.mounting import journalfs
from tests.store.conftest import LittleStore
from tests.store.writing.conftest import Writable

CORE = """\
<journal-type>NIO</journal-type>
<journal-fil-size>1M</journal-fil-size>
<persist-id-cache>false</persist-id-cache>
<page-sync-timeout>7</page-sync-timeout>
<address-settings><address-setting match="#"><page-full-policy>DROP</page-full-policy>
<max-read-page-bytes>7</max-read-page-bytes></address-setting></address-settings>
"""


def configure(little: LittleStore) -> Path:
    file = little.root / "etc" / "broker.xml"
    file.parent.mkdir()
    file.write_text(f"<configuration><core>\n{CORE}</core></configuration>")
    return file


def told(store: WritingStore) -> list[str]:
    said = [str(one["message"]) for one in store.core.events if one["event"] == "configuration"]
    return [one for one in said if "are not on this machine" not in one]


@pytest.mark.rule("S-342")
@pytest.mark.rule("S-343")
@pytest.mark.rule("S-344")
async def test_each_is_told_once(little_store: LittleStore) -> None:
    file = configure(little_store)
    async with Writable(little_store, "NIO").open() as store:
        unknown, alone, nothing = told(store)
    assert unknown.startswith(f"{file}:3: journal-fil-size: is not known as an element of <core>")
    assert alone.startswith(f"{file}:6: page-full-policy: for '#': does nothing without page-limit-bytes")
    names = "persist-id-cache (line 4), page-sync-timeout (line 5), max-read-page-bytes (line 7)"
    assert nothing == f"settings without effect here, kept for brokers: {file}: {names}"


@pytest.mark.rule("S-343")
async def test_check_has_a_line_of_each(little_store: LittleStore) -> None:
    file = configure(little_store)
    done = journalfs("check", little_store.root)
    assert done.returncode == 0
    told = done.stderr.partition("no damage\n")[2].splitlines()
    kinds = [line.partition(": ")[0] for line in told if not line.startswith("not looked for")]
    assert kinds == ["unknown-setting", "setting-alone", *["setting-without-effect"] * 3]
    assert f"setting-without-effect: {file}:4: persist-id-cache: has no effect here: " in done.stderr
    assert "did you mean journal-file-size?" in done.stderr


@pytest.mark.rule("S-344")
async def test_an_attribute_that_does_nothing_alone(little_store: LittleStore) -> None:
    (little_store.root / "journalfs.toml").write_text('journal-type = "NIO"\n')
    async with Writable(little_store, "NIO").open() as store:
        await store.set_attribute("work", None, "user.journalfs.page-full-policy", b"FAIL")
        await store.set_attribute("work", None, "user.journalfs.page-limit-messages", b"9")
        [said] = [one for one in told(store) if "page-" in one]
    without = "does nothing without page-limit-bytes or page-limit-messages"
    assert said == f"work: page-full-policy: for 'work': {without}"
