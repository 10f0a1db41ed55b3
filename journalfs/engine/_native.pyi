"""The compiled core. The headers in native/include declare it; cffi gives it no Python types."""

from typing import Any

ffi: Any
lib: Any
