"""`tests.crash.worker` on a disk that takes its time."""

from __future__ import annotations

import random
import sys
from unittest.mock import patch

from tests.crash.worker import main
from tests.tools.late_disk import LateDisk, late

if __name__ == "__main__":
    LateDisk.chance = random.Random(sys.argv[2])
    with patch("journalfs.store.journal_setup.open_backend", late):
        main()
