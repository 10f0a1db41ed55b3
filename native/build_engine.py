"""Builds `journalfs.engine._native` from the C sources. The headers in `include/` say what Python calls."""

import os
from pathlib import Path

from cffi import FFI
from declarations import debug_macros, declarations

HERE = Path("native")  # setuptools runs in the project's root and wants relative paths


ffibuilder = FFI()
seen: set[Path] = set()
for public in sorted((HERE / "include").glob("*.h")):
    ffibuilder.cdef(declarations(public, seen))

_flags = os.environ.get("JOURNALFS_CFLAGS", "-O3 -g -fno-semantic-interposition").split()
ffibuilder.set_source(
    "journalfs.engine._native",
    "".join(f'#include "{header.name}"\n' for header in sorted((HERE / "include").glob("*.h"))),
    sources=[str(path) for path in sorted((HERE / "src").glob("*/*.c"))],
    define_macros=debug_macros(),
    include_dirs=[str(HERE / "include"), *map(str, sorted((HERE / "src").iterdir()))],
    extra_compile_args=["-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", *_flags],
    extra_link_args=os.environ.get("JOURNALFS_LDFLAGS", "").split(),
    libraries=["z"],
    py_limited_api=True,
)

if __name__ == "__main__":
    import build_front

    ffibuilder.compile(verbose=True)
    build_front.compile_in_place()
