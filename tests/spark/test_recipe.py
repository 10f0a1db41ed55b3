"""Every block of the recipe and of the tutorial of Spark is typed as it stands there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scripts.documents.blocks import blocks
from tests.frozen import PristineStores
from tests.recipes.desk import desk
from tests.tidy.sources import ROOT


@pytest.mark.parametrize("page", ["recipes", "tutorial"])
def test_a_page_of_spark(spark: SparkSession, stores: PristineStores, tmp_path: Path, page: str) -> None:
    with desk(stores["orders-basic"], stores["kaha-5.16.7-killed"], tmp_path) as at:
        for block in blocks(ROOT / f"docs/{page}/spark.md"):
            if (block.kind, block.note) == ("python", "spark"):
                exec(at.typed(block.text), {"spark": spark})
            else:
                assert (block.kind, block.note) == ("sh", ""), block.line
                at.shell(block.text)
