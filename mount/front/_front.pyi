"""The compiled front. native/front/jfs_front.h declares it; cffi gives it no Python types."""

from typing import Any

ffi: Any
lib: Any
