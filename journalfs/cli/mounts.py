"""Which mount a path that somebody typed lies in."""

from __future__ import annotations

from pathlib import Path

from journalfs.errors import WrongCall


def mount_of(path: Path) -> Path | None:
    """The root of the journalfs mount that `path` lies in; None: it lies in none."""
    from journalfs_mount.mountpoint import FILESYSTEM_TYPE, mounts, resolved  # noqa: PLC0415

    roots = {Path(one.path) for one in mounts() if one.filesystem == FILESYSTEM_TYPE}
    place = resolved(path)
    return next((root for root in (place, *place.parents) if root in roots), None)


def the_mount(path: Path | None) -> Path:
    """The mount that `path` lies in; without one that of the working directory, or the only one there is.
    Raises WrongCall.
    """
    found = mount_of(Path.cwd() if path is None else path)
    if found is not None:
        return found
    if path is not None:
        raise WrongCall(f"{path}: lies in no journalfs mount; mounts are listed by findmnt -t fuse.journalfs")
    roots = mount_roots()
    if len(roots) != 1:
        others = ", ".join(map(str, roots)) or "there is none"
        raise WrongCall(f"say which mount is meant ({others})")
    return roots[0]


def mount_roots() -> list[Path]:
    """Where journalfs is mounted."""
    from journalfs_mount.mountpoint import FILESYSTEM_TYPE, mounts  # noqa: PLC0415

    return sorted({Path(one.path) for one in mounts() if one.filesystem == FILESYSTEM_TYPE})


def mount_of_store(root: Path) -> Path | None:
    """Where a store is mounted. Mounts of which the mount table says that they are of others are not asked:
    whoever asks one that hangs waits for it.
    """
    from journalfs.exchange.targets import mounted_store  # noqa: PLC0415
    from journalfs_mount.mountpoint import FILESYSTEM_TYPE, mounts  # noqa: PLC0415

    ours = [one for one in mounts() if one.filesystem == FILESYSTEM_TYPE]
    for one in ours:
        named = one.source.startswith("/")  # else by `-o fsname`, which may say anything
        if (not named or root.is_relative_to(one.source)) and mounted_store(Path(one.path)) == root:
            return Path(one.path)
    return None
