"""Makes a copy of the sources ready to be packed: the version of its tag, and links that work elsewhere.

`scripts/release` calls it. No file has the address of the repository: JOURNALFS_REPOSITORY_URL says it.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

REPOSITORY_VARIABLE = "JOURNALFS_REPOSITORY_URL"
TAG = re.compile(r"v(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)")
_VERSION = re.compile(r'^version = "(.*)"$', re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
_IMAGE = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)]+\)\n*")


def version_of(described: str, untagged: str) -> str:
    """Return the version that `git describe --tags --long --match 'v*'` means: that of the tag, or one that
    comes before the next. `untagged`: the version of a repository without tags. Raises ValueError.
    """
    if not described:
        return f"{untagged}.dev0"
    tag, commits, commit = described.rsplit("-", 2)
    found = TAG.fullmatch(tag)
    if found is None:
        raise ValueError(f"{tag}: a tag of a version is like v1.2.3 or v1.2.3rc1")
    return found[1] if commits == "0" else f"{found[1]}.post{commits}+{commit}"


def readme(text: str, repository: str, revision: str) -> str:
    """Return README.md as a package index shows it: without the address of the repository it has no links."""
    if not repository:
        return _LINK.sub(r"\2", _IMAGE.sub("", text))
    base = repository.rstrip("/").removesuffix(".git")

    def absolute(found: re.Match[str]) -> str:
        kind = "raw" if found[1] else "blob"
        return f"{found[1]}[{found[2]}]({base}/{kind}/{revision}/{found[3]}{found[4] or ''})"

    return _LINK.sub(absolute, text)


def project(text: str, version: str, repository: str, revision: str) -> str:
    """Return pyproject.toml with the version and the addresses."""
    text = _VERSION.sub(f'version = "{version}"', text, count=1)
    if not repository:
        return text
    base = repository.rstrip("/").removesuffix(".git")
    urls = {
        "Source": base,
        "Documentation": f"{base}/blob/{revision}/docs/README.md",
        "Changes": f"{base}/blob/{revision}/CHANGELOG.md",
        "Issues": f"{base}/issues",
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    return text.replace("[project.scripts]\n", f"[project.urls]\n{lines}\n[project.scripts]\n", 1)


def main(tree: Path, described: str, commit: str) -> str:
    """Make a tree ready and return its version."""
    repository = os.environ.get(REPOSITORY_VARIABLE, "")
    pyproject = (tree / "pyproject.toml").read_text()
    own = _VERSION.search(pyproject)
    assert own is not None, "pyproject.toml has a version"
    version = version_of(described, own[1])
    revision = f"v{version}" if TAG.fullmatch(f"v{version}") else commit
    (tree / "pyproject.toml").write_text(project(pyproject, version, repository, revision))
    (tree / "README.md").write_text(readme((tree / "README.md").read_text(), repository, revision))
    return version


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
