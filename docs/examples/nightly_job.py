"""Each night: add what is new in a store to an archive, and write a report of what still waits. No message is
archived twice when it is started again, and no Java is needed.

0 3 * * *  python docs/examples/nightly_job.py /var/lib/artemis/data /archive/messages /srv/www/messages
"""

import sys
import time

from journalfs.pipeline import stats
from journalfs.pipeline.archive_here import archive_here
from journalfs.pipeline.engines import LocalEngine
from journalfs.pipeline.messages import Source


def night(store: str, archive: str, report: str) -> str:
    source, engine = Source(store), LocalEngine()
    run, rows = archive_here(source, engine.folder(archive))
    found = stats.stats(engine, source, round(time.time() * 1000))
    stats.report(found, source, engine.folder(report))
    damaged = sum(one.damaged for one in rows.values())
    return f"{run.messages if run else 0} archived, {found.messages} waiting, {damaged} damaged"


if __name__ == "__main__":
    print(night(*sys.argv[1:4]))
