"""What scripts install is pinned by hash, and the pins are those of what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = sorted((ROOT / "scripts/locks").glob("*.txt"))
PIN = re.compile(
    r"^([A-Za-z0-9._-]+)==([^\s;\\]+)[^\n]*\\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)
HOW = "make the locks anew, by the command in scripts/common.sh beside make_venv"
COMMENT = re.compile(r"^#[^\n]*\n", re.MULTILINE)


def pins(lock: Path) -> dict[str, str]:
    """Versions by name; nothing else stands there."""
    text = COMMENT.sub("", lock.read_text())
    assert not PIN.sub("", text).strip(), "something has no hash"
    return {canonicalize_name(name): version for name, version, _ in PIN.findall(text)}


def needed(lock: Path) -> list[Requirement]:
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    for extra in lock.stem.split("-"):
        wanted += project["optional-dependencies"][extra]
    return [Requirement(one) for one in wanted]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.stem))
def test_a_lock_pins_all_that_is_asked_for(lock: Path) -> None:
    pinned = pins(lock)
    for requirement in needed(lock):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{lock.name} does not pin {requirement.name}: {HOW}"
        assert requirement.specifier.contains(version), f"{lock.name} pins {version} of {requirement}: {HOW}"


def test_each_environment_that_scripts_make_has_a_lock() -> None:
    made = set()
    for script in ("test", "demo"):
        made |= set(re.findall(r"^make_venv (\S+)$", (ROOT / "scripts" / script).read_text(), re.MULTILINE))
    assert {extras.replace(",", "-") for extras in made} == {lock.stem for lock in LOCKS}


def test_no_file_names_a_registry() -> None:
    for lock in LOCKS:
        assert not re.search(r"https?:|--index|--find-links|--trusted", lock.read_text())
