"""How many tasks an exchange has in sessions of pipelines, which begin in a process without any. Called with
settings as JSON for each of them.
"""

from __future__ import annotations

import json
import sys

from journalfs.pipeline.session import session


def main(*given: str) -> list[str | None]:
    found = []
    for settings in map(json.loads, given):
        with session("local[3]", {"spark.driver.memory": "512m", **settings}, title="x") as spark:
            found.append(spark.conf.get("spark.sql.shuffle.partitions"))
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
