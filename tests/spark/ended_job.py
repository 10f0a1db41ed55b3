"""What is said to whoever goes on with a session of Spark that has ended. Called with a scratch directory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from journalfs.errors import WrongCall
from journalfs.spark import live_messages, page_records, records, register
from tests.spark.drivers import session


def main(work: str) -> list[str]:
    spark = session(work, "local[1]")
    register(spark)
    spark.stop()
    calls: list[Callable[[], Any]] = [
        lambda: register(spark),
        lambda: live_messages(spark, work),
        lambda: records(spark, work),
        lambda: page_records(spark, work),
    ]
    said: list[str] = []
    for call in calls:
        try:
            call()
        except WrongCall as refused:
            said.append(str(refused).partition(",")[0])
    return said


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
