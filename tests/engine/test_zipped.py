"""The package works from within a zip file, in which Spark sends it to its workers."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import journalfs

SAYS = """
import json, os
import journalfs
from journalfs.engine._native import lib
from journalfs.engine import _native
from journalfs.store import open_store
print(json.dumps([journalfs.__file__, _native.__file__, os.path.exists(_native.__file__), len(dir(lib))]))
"""


def test_the_core_is_loaded_out_of_a_zip_file(tmp_path: Path) -> None:
    package = Path(journalfs.__file__).parent
    archive = tmp_path / "journalfs.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in package.rglob("*"):
            if path.suffix in (".py", ".so"):
                file.write(path, path.relative_to(package.parent))
    done = subprocess.run(
        [sys.executable, "-c", SAYS],
        cwd=tmp_path,
        env={"PYTHONPATH": str(archive), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where, core, is_left, functions = json.loads(done.stdout)
    assert where == str(archive / "journalfs" / "__init__.py")
    assert not core.startswith(str(package))
    assert not is_left, "the copy that it was loaded from is gone"
    assert functions > 50
