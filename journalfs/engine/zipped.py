"""The compiled core out of a zip file."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import zipimport
from importlib.machinery import ExtensionFileLoader
from typing import Final

_CORE: Final = f"{__package__}._native"
_FILE: Final = "_native.abi3.so"


def load_core(archive: zipimport.zipimporter) -> None:
    """Load the compiled module from a copy, which needs no name once it is loaded."""
    content = archive.get_data(f"{archive.archive}/{_CORE.rpartition('.')[0].replace('.', '/')}/{_FILE}")
    with tempfile.NamedTemporaryFile(suffix=_FILE) as copy:
        copy.write(content)
        copy.flush()
        loader = ExtensionFileLoader(_CORE, copy.name)
        spec = importlib.util.spec_from_file_location(_CORE, copy.name, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    sys.modules[_CORE] = module
