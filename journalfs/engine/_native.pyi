"""The compiled core. What it declares is in native/decl; cffi gives it no Python types."""

from typing import Any

ffi: Any
lib: Any
