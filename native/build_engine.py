"""Builds `journalfs.engine._native` from the C sources and the declaration fragments in `decl/`."""

import os
from pathlib import Path

from cffi import FFI

HERE = Path("native")  # setuptools runs in the project's root and wants relative paths

ffibuilder = FFI()
for fragment in sorted((HERE / "decl").glob("*.h")):
    ffibuilder.cdef(fragment.read_text())

_flags = os.environ.get("JOURNALFS_CFLAGS", "-O3 -g -fno-semantic-interposition").split()
ffibuilder.set_source(
    "journalfs.engine._native",
    "".join(f'#include "{header.name}"\n' for header in sorted((HERE / "include").glob("*.h"))),
    sources=[str(path) for path in sorted((HERE / "src").glob("*.c"))],
    include_dirs=[str(HERE / "include")],
    extra_compile_args=["-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", *_flags],
    extra_link_args=os.environ.get("JOURNALFS_LDFLAGS", "").split(),
    libraries=["z"],
    py_limited_api=True,
)

if __name__ == "__main__":
    ffibuilder.compile(verbose=True)
