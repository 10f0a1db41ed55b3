"""Builds `journalfs_mount.front._front`, which reads /dev/fuse. It needs no header of libfuse."""

import os
import shutil
from pathlib import Path

from cffi import FFI
from declarations import debug_macros, declarations

HERE = Path("native/front")  # setuptools runs in the project's root and wants relative paths


def builder(here: Path) -> FFI:
    """What makes it of the sources in `here`."""
    made = FFI()
    made.cdef(declarations(here / "jfs_front.h", set()))
    made.set_source(
        "journalfs_mount.front._front",
        '#include "jfs_front.h"\n',
        sources=[str(path) for path in sorted(here.glob("*.c"))],
        define_macros=debug_macros(),
        include_dirs=[str(here)],
        extra_compile_args=[
            *("-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fvisibility=hidden"),
            *os.environ.get("JOURNALFS_CFLAGS", "-O3 -g").split(),
        ],
        extra_link_args=["-pthread", *os.environ.get("JOURNALFS_LDFLAGS", "").split()],
        libraries=["dl"],
        py_limited_api=True,
    )
    return made


ffibuilder = builder(HERE)


def compile_in_place() -> None:
    """Beside the modules of `journalfs_mount.front`, which lie in `mount/front`."""
    Path("build/front").mkdir(parents=True, exist_ok=True)
    made = Path(builder(HERE.resolve()).compile(tmpdir="build/front", verbose=True))
    # Mounts that run have the one that is there mapped.
    fresh = Path("mount/front", f"{made.name}.new")
    shutil.copy2(made, fresh)
    fresh.replace(fresh.with_suffix(""))
