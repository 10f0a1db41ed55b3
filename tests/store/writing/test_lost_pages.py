"""Pages that lost something, lie in the wrong folder, or are of transactions that nobody knows.

Nothing of them is taken for consumed.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from journalfs.errors import NotEmpty
from journalfs.format.record_types import MessageType
from tests.mounting import journalfs
from tests.store.conftest import QUEUE_A
from tests.store.publishing import publish_file
from tests.store.test_pages import small, write_page
from tests.store.writing.conftest import Writable, bodies_of, ids_of
from tests.store.writing.test_paging import BOTH, publish

STRAY = "000000007.page"
BOTH_NAMES = ("work.a", "work.b")


async def _with_a_stray(writable: Writable) -> tuple[Path, Path]:
    """A page of `work`, of which one queue has consumed something, and where a copy of it would lie in the
    folder of `other`.
    """
    write_page(writable.little, 7, [small(2000 + number, queues=BOTH) for number in range(3)])
    write_page(writable.little, 8, [small(2010, queues=BOTH)])
    async with writable.open() as store:
        await store.create_address("other")
        await store.create_queue("other", "other.q")
        assert await store.acknowledge(("work", "work.a"), ids_of(store)[:2]) == 2
    mine = writable.root / "paging/some-folder" / STRAY
    folder = writable.root / "paging/another-folder"
    folder.mkdir()
    (folder / "address.txt").write_text("other\n")
    return mine, folder / STRAY


@pytest.mark.rule("S-112")
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("is_last", [False, True])
async def test_a_page_of_another_address_stays_and_takes_nothing_along(
    writable: Writable, moved: bool, is_last: bool
) -> None:
    mine, stray = await _with_a_stray(writable)
    if not is_last:
        stray.with_name("000000009.page").write_bytes(b"")
    content = mine.read_bytes()
    stray.write_bytes(content)
    if moved:
        mine.unlink()
    left = ["paged 2010"] if moved else ["paged 2002", "paged 2010"]
    for _ in range(2):
        async with writable.open() as store:
            await store.paged.look()
            assert bodies_of(store, "work.a") == left
            assert [one.kind for one in store.core.damage()] == ["page-folder"]
            for address, queue in (("work", "work.a"), ("work", "work.b"), ("other", "other.q")):
                await publish_file(store, address, queue, "in.txt", b"another\n")
                assert bodies_of(store, queue, address)[-1] == "another"
                assert await store.acknowledge((address, queue), ids_of(store, queue, address)[-1:]) == 1
    assert stray.read_bytes() == content
    stray.rename(mine)
    async with writable.open() as store:
        assert bodies_of(store, "work.a") == ["paged 2002", "paged 2010"]
        assert bodies_of(store, "work.b") == ["paged 2000", "paged 2001", "paged 2002", "paged 2010"]


@pytest.mark.rule("S-112")
async def test_an_address_is_not_removed_with_a_page_of_another(writable: Writable) -> None:
    mine, stray = await _with_a_stray(writable)
    stray.write_bytes(mine.read_bytes())
    async with writable.open() as store:
        await store.delete_queue("other", "other.q")
        with pytest.raises(NotEmpty, match=r"another-folder/000000007.page is of queues of another address"):
            await store.delete_address("other")
    stray.unlink()
    async with writable.open() as store:
        await store.delete_address("other")
        assert not stray.parent.exists()


@pytest.mark.rule("S-113")
@pytest.mark.parametrize(("cut", "left"), [(0, 0), (1, 1), (2, 2), (2.5, 2)])
async def test_a_page_that_lost_something_stays_with_what_was_consumed_of_it(
    writable: Writable, cut: float, left: int
) -> None:
    """All of it, all but one record or two, and the end of one. What is left of it is consumed then."""
    records = [small(2000 + number, queues=BOTH) for number in range(3)]
    page = write_page(writable.little, 1, records)
    write_page(writable.little, 2, [small(2010, queues=BOTH)])
    async with writable.open() as store:
        first, _, third = ids_of(store)[:3]
        assert await store.acknowledge(("work", "work.a"), [first, third]) == 2
    page.write_bytes(b"".join(records)[: int(cut * len(records[0]))])
    for _ in range(2):
        async with writable.open() as store:
            for queue in ("work.a", "work.b"):
                await store.acknowledge(("work", queue), ids_of(store, queue)[:-1])
            await store.paged.look()
            assert bodies_of(store) == bodies_of(store, "work.b") == ["paged 2010"]
            assert page.exists()
            (damage,) = store.core.damage()
            kind = "page" if cut % 1 else "short-file"
            assert (damage.kind, damage.offset) == (kind, left * len(records[0]))
    page.write_bytes(b"".join(records))
    async with writable.open() as store:
        assert bodies_of(store) == [*["paged 2001"][: 2 - left], "paged 2010"]
        assert bodies_of(store, "work.b") == [
            *(f"paged {2000 + number}" for number in range(left, 3)),
            "paged 2010",
        ]


@pytest.mark.rule("S-113")
@pytest.mark.parametrize("lost", ["garbage", "zeros", "its end"])
async def test_a_page_that_lost_something_stays_while_the_journal_says_that_one_queue_is_done_with_it(
    writable: Writable, lost: str
) -> None:
    records = [small(2000 + number, queues=BOTH) for number in range(3)]
    page = write_page(writable.little, 1, records)
    write_page(writable.little, 2, [small(2010, queues=BOTH)])
    async with writable.open() as store:
        assert await store.acknowledge(("work", "work.a"), ids_of(store)[:3]) == 3
    content = page.read_bytes()
    garbage, zeros = b"\x99" * len(content), bytes(len(content))
    page.write_bytes({"garbage": garbage, "zeros": zeros, "its end": records[0]}[lost])
    for _ in range(2):
        async with writable.open() as store:
            await store.acknowledge(("work", "work.b"), ids_of(store, "work.b")[:-1])
            await store.paged.look()
            assert bodies_of(store) == bodies_of(store, "work.b") == ["paged 2010"]
            assert page.exists()
    page.write_bytes(content)
    async with writable.open() as store:
        assert bodies_of(store) == ["paged 2010"]
        left = ["paged 2000"] * (lost != "its end") + ["paged 2001", "paged 2002", "paged 2010"]
        assert bodies_of(store, "work.b") == left


async def _set_aside(writable: Writable) -> tuple[Path, bytes]:
    """The first page of two, of which one message was damaged, and all else is consumed."""
    records = [small(2000 + number, queues=BOTH) for number in range(3)]
    page = write_page(writable.little, 1, records)
    write_page(writable.little, 2, [small(2010, queues=BOTH)])
    content = page.read_bytes()
    page.write_bytes(b"\x99" * len(records[0]) + content[len(records[0]) :])
    async with writable.open() as store:
        assert [one.kind for one in store.core.damage()] == ["page"]
        for queue in BOTH_NAMES:
            assert await store.acknowledge(("work", queue), ids_of(store, queue)[:2]) == 2
        await store.paged.look()
        assert store.core.damage() == []
        assert not page.exists()
        (event,) = [one for one in store.core.events if one["event"] == "page-set-aside"]
        assert f"{page.parent.name}/{page.name}: it is damaged, and all that can" in str(event["message"])
    return page, content


@pytest.mark.protects("P-4")
@pytest.mark.rule("S-113")
async def test_a_page_that_was_set_aside_is_what_it_was_when_it_is_put_back(writable: Writable) -> None:
    page, content = await _set_aside(writable)
    aside = page.with_name(page.name + ".invalidPage")
    for _ in range(2):
        async with writable.open() as store:
            await store.paged.look()
            assert bodies_of(store) == bodies_of(store, "work.b") == ["paged 2010"]
            assert store.status()["pagesSetAside"] == 1
    checked = journalfs("check", writable.root)
    assert checked.returncode == 0
    assert ", 1 page set aside\n" in checked.stderr
    assert f"{page.parent.name}/{aside.name}" in checked.stdout
    aside.unlink()
    page.write_bytes(content)
    async with writable.open() as store:
        await store.paged.look()
        assert bodies_of(store) == bodies_of(store, "work.b") == ["paged 2000", "paged 2010"]
        for queue in BOTH_NAMES:
            await store.acknowledge(("work", queue), ids_of(store, queue))
        assert not page.exists()
        assert not aside.exists()
    async with writable.open() as store:
        assert not [place for place in store.core.cursors.consumed if place[1] == 1]


@pytest.mark.protects("P-4")
@pytest.mark.rule("S-113")
@pytest.mark.parametrize("kept", [False, True])
async def test_no_page_gets_the_number_of_one_that_was_set_aside(writable: Writable, kept: bool) -> None:
    """Even where it was the last one; and once it is gone, what the journal says of it goes too."""
    page, _ = await _set_aside(writable)
    aside = page.with_name(page.name + ".invalidPage")
    last = aside.with_name("000000007.page.invalidPage")
    aside.rename(last)
    if not kept:
        last.unlink()
    async with writable.open() as store:
        await store.paged.look()
    async with writable.open() as store:
        assert not [place for place in store.core.cursors.consumed if place[1] == 1]
        await publish(store, "in.txt", b"one\n")
        assert bodies_of(store) == bodies_of(store, "work.b") == ["paged 2010", "one"]
    there = {path.name for path in page.parent.glob("*.page")}
    assert there == {"000000002.page", *(["000000008.page"] * kept)}


@pytest.mark.rule("S-113")
async def test_an_empty_page_that_all_have_consumed_goes(writable: Writable) -> None:
    """As where a crash came between."""
    page = write_page(writable.little, 1, [small(2000, queues=(QUEUE_A,))])
    write_page(writable.little, 2, [small(2010, queues=BOTH)])
    for number, queue in enumerate(BOTH):
        body = struct.pack(">qqi", queue, 1, 1)
        complete = writable.little.journal.record(
            11, record_id=80 + number, user_type=MessageType.PAGE_COMPLETE, body=body
        )
        writable.little.journal.append(complete)
    page.write_bytes(b"")
    async with writable.open() as store:
        await store.paged.look()
        assert bodies_of(store) == ["paged 2010"]
        assert not page.exists()
        assert store.core.damage() == []


@pytest.mark.rule("S-113")
@pytest.mark.parametrize("left", [0, 1])
async def test_what_is_published_gets_no_place_of_what_was_consumed_and_is_lost(
    writable: Writable, left: int
) -> None:
    """The last page was cut off between two messages, so nothing else tells."""
    write_page(writable.little, 1, [small(1990, queues=BOTH)])
    records = [small(2000 + number, queues=BOTH) for number in range(3)]
    page = write_page(writable.little, 2, records)
    async with writable.open() as store:
        assert await store.acknowledge(("work", "work.a"), ids_of(store)[2:]) == 2
    page.write_bytes(b"".join(records[:left]))
    async with writable.open() as store:
        for text in (b"1\n", b"2\n", b"3\n"):
            await publish(store, "in.txt", text)
        for queue in ("work.a", "work.b"):
            assert bodies_of(store, queue) == [*("paged 1990", "paged 2000")[: left + 1], "1", "2", "3"]
    async with writable.open() as store:
        assert bodies_of(store)[left + 1 :] == ["1", "2", "3"]


@pytest.mark.rule("S-112")
@pytest.mark.parametrize("known", [False, True])
async def test_a_page_of_transactions_that_nobody_knows_is_set_aside(writable: Writable, known: bool) -> None:
    """Where the journal knows of one of its messages it goes as any other."""
    records = [small(2000 + number, queues=BOTH, tx_id=70) for number in range(3)]
    page = write_page(writable.little, 1, [*records, *[small(2009, queues=BOTH)] * known])
    write_page(writable.little, 2, [small(2010, queues=BOTH)])
    content = page.read_bytes()
    async with writable.open() as store:
        for queue in ("work.a", "work.b"):
            await store.acknowledge(("work", queue), ids_of(store, queue)[:-1])
        await store.paged.look()
        await store.paged.look()
        assert bodies_of(store) == ["paged 2010"]
        events = [event["event"] for event in store.core.events]
        assert ("page-set-aside" in events) is not known
    aside = page.with_name(page.name + ".invalidPage")
    assert not page.exists()
    if known:
        assert not aside.exists()
    else:
        assert aside.read_bytes() == content
