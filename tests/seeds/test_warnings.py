"""The warnings of the founding documents are on our pages, where somebody looks who sets up a store."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operate" / "disks.md"
SECTIONS = {
    "The write cache of a disk": (
        "/sys/block/", "write back",
        "hdparm -W", "sdparm --get=WCE", "battery", "array", "switch the cache off",
        "less speed", "power cut", "journal-datasync",
    ),
    "File systems": (
        "ext4", "xfs", "jfs", "NFS", "ASYNCIO", "hard mounts and locks", "waits for each",
    ),
    "A disk of its own": ("journal-directory", "fastest", "SAN", "LUN", "node-manager-lock-directory"),
    "MAPPED and huge pages": ("multiple of the page size", "Huge pages", "tmpfs"),
    "Pages": ("nobody reads", "paging", "page-limit-messages", "page-size-bytes"),
    "Databases": ("Files are faster", "pages and large messages"),
}  # fmt: skip


@pytest.mark.parametrize("section", SECTIONS)
def test_pages_have_the_warnings(section: str) -> None:
    text = PAGE.read_text().partition(f"## {section}\n")[2].partition("\n## ")[0]
    assert [word for word in SECTIONS[section] if word not in text] == []


def test_the_page_is_found() -> None:
    assert "operate/disks.md" in (ROOT / "docs" / "README.md").read_text()
    assert "disks.md" in (ROOT / "docs" / "operate" / "crashes.md").read_text()


def test_what_is_refused_is_said() -> None:
    assert "Linux" in (ROOT / "README.md").read_text().partition("## Install")[2]
