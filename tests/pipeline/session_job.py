"""How many tasks an exchange has in sessions of pipelines, which begin in a process without any, and what is
said to whoever goes on with one that has ended. Called with settings as JSON for each of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from journalfs.errors import WrongCall
from journalfs.pipeline.session import session
from journalfs.spark import live_messages, page_records, records, register


def main(*given: str) -> dict[str, list[str | None]]:
    found: list[str | None] = []
    for settings in map(json.loads, given):
        with session("local[3]", {"spark.driver.memory": "512m", **settings}, title="x") as spark:
            register(spark)
            found.append(spark.conf.get("spark.sql.shuffle.partitions"))
    calls: list[Callable[[], Any]] = [
        lambda: register(spark),
        *(lambda call=call: call(spark, ".") for call in (live_messages, records, page_records)),
    ]
    said: list[str | None] = []
    for call in calls:
        try:
            call()
        except WrongCall as refused:
            said.append(str(refused).partition(",")[0])
    return {"tasks": found, "said": said}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
