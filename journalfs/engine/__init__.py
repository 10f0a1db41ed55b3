"""The compiled core and what wraps it.

The package also works from within a zip file, as Spark sends it to workers with `--py-files`, though Python
loads no compiled module from there.
"""

from __future__ import annotations

import sys
import zipimport

_own_loader = sys.modules[__name__].__loader__
if isinstance(_own_loader, zipimport.zipimporter):
    from journalfs.engine.zipped import load_core

    load_core(_own_loader)
