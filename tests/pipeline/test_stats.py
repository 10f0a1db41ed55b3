"""Counts are those of the lines; the report is one file with all of it."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from PIL import Image
from pyspark.sql import SparkSession

from journalfs.pipeline.engines import LOCAL, SPARK, Engine
from journalfs.pipeline.folders import LocalFolder
from journalfs.pipeline.messages import Source
from journalfs.pipeline.report import Table, bars, draw_steps, steps, write_report
from journalfs.pipeline.stats import DAY, HOUR, MINUTE, plots, report, stats
from journalfs.pipeline.times import date_of
from tests.cli.running import journalfs, objects
from tests.frozen import PristineStores
from tests.spark.rows import lines_of
from tests.spark.writing import publish, written_store

NOW = 1_800_000_000_000
PNG = b"\x89PNG\r\n\x1a\n"


def test_every_number(engine: Engine, tmp_path: Path) -> None:
    times = [NOW - 3 * HOUR, NOW - 2 * HOUR, NOW - HOUR - 1, NOW - 10, 0, NOW + 30 * DAY]
    messages = [{"body": "é" * (number + 1), "timestamp": when} for number, when in enumerate(times)]
    store = written_store(tmp_path, {"a": messages, "empty": []})
    publish(store, "a", [{"body": "x", "timestamp": NOW - DAY, "expiration": NOW - 1, "deliveryCount": 2}])
    publish(store, "empty", [{"body_base64": "AAEC", "timestamp": NOW - 400 * DAY}])
    found = stats(engine, Source(str(store)), NOW)
    first, second = found.queues
    assert (first.address, first.queue, first.messages, first.bytes, first.largest) == ("a", "a", 7, 43, 12)
    assert (first.redelivered, first.expired, first.large) == (1, 1, 0)
    assert (first.oldest, first.newest) == (NOW - DAY, NOW + 30 * DAY)
    assert first.perHour == pytest.approx(6 * HOUR / (31 * DAY), abs=0.001)
    assert (second.queue, second.bytes, second.perHour, second.medianAge) == ("empty", 3, None, 400 * DAY)
    assert found.ages == {
        "in the future": 1,
        "< 1 min": 1,
        "< 1 h": 0,
        "< 1 d": 3,
        "< 1 week": 1,
        "< 30 d": 0,
        "< 1 year": 0,
        "older": 1,
        "unknown": 1,
    }
    assert (found.width_ms, len(found.starts_ms)) == (7 * DAY, 62)
    assert (sum(found.arrivals["a"]), sum(found.arrivals["empty"])) == (6, 1)
    assert found.arrivals["empty"][0] == 1
    assert found.arrivals["a"][-1] == 1
    of_one = stats(engine, Source(str(store), ("a",), "JMSPriority = 4 AND JMSTimestamp > 0"), NOW)
    assert of_one.messages == 6


def test_any_time_counts(engine: Engine, tmp_path: Path) -> None:
    year = 365 * DAY
    times = [-(2**63), -20_000 * year, -year - 1, -year, -1, 1, NOW, 9_000 * year, 2**63 - 1]
    store = written_store(tmp_path, {"a": [{"body": "x", "timestamp": when} for when in times]})
    found = stats(engine, Source(str(store)), NOW)
    (one,) = found.queues
    assert (one.oldest, one.newest) == (times[0], times[-1])
    assert sum(found.ages.values()) == len(times)
    assert (found.ages["in the future"], found.ages["older"], found.ages["< 1 min"]) == (2, 6, 1)
    assert sum(found.arrivals["a"]) == len(times)
    assert len(found.starts_ms) <= 120
    first, last = found.edges_ms[0], found.edges_ms[-1]
    assert first <= times[0] < first + found.width_ms
    assert last - found.width_ms <= times[-1] < last
    assert all(plot.png.startswith(PNG) for plot in plots(found))
    said = journalfs("pipeline", "stats", store).stdout.split("\t")
    assert said[6].startswith("@-")
    near = Source(str(store), (), f"JMSTimestamp BETWEEN {-year - 1} AND -1")
    before = stats(engine, near, NOW)
    assert before.width_ms == 7 * DAY
    assert (before.arrivals["a"][0], before.arrivals["a"][-1]) == (2, 1)
    assert all(start <= time < start + 7 * DAY for start, time in ((before.starts_ms[-1], -1),))


@pytest.mark.parametrize("counts", [[3], [3, 0, 5]])
@pytest.mark.parametrize("start_ms", [NOW, -(10**15)])
def test_every_stretch_is_drawn_over_its_time(counts: list[int], start_ms: int) -> None:
    edges = [start_ms + number * HOUR for number in range(len(counts) + 1)]
    axes: Any = Figure().add_subplot()
    draw_steps(axes, edges, {"a": counts, "b": [1] * len(counts)})
    drawn = [(one.get_label(), one.get_paths()) for one in axes.collections]
    assert [label for label, _ in drawn] == ["a", "b"]
    places = axes.convert_xunits([date_of(edge) for edge in edges]) if start_ms == NOW else edges
    tops = {label: one.vertices for label, (one,) in drawn}
    for number, value in enumerate(counts):
        for place in (places[number], places[number + 1]):
            assert [place, value] in tops["a"].tolist()
            assert [place, value + 1] in tops["b"].tolist()
    assert tuple(axes.get_xlim()) == pytest.approx((places[0], places[-1]))


def test_the_legend_covers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    steps("x", "X", [NOW, NOW + HOUR], {"q" * 60: [3]}, "messages")
    (figure,) = figures
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert not legend.get_window_extent().overlaps(figure.axes[0].get_window_extent())


def test_counts_are_those_of_the_lines(engine: Engine, stores: PristineStores, tmp_path: Path) -> None:
    store = stores["orders-basic"]
    found = stats(engine, Source(str(store)), NOW)
    lines = [line for line, _ in lines_of(store)]
    for one in found.queues:
        of_queue = [
            line for line in lines if (line["queue"], line.get("address")) == (one.queue, one.address)
        ]
        assert one.messages == len(of_queue)
        assert one.redelivered == sum("deliveryCount" in line for line in of_queue)
    assert found.messages == len(lines)
    series = [sum(one) for one in found.arrivals.values()]
    assert sum(series) == sum(found.ages.values()) - found.ages.get("unknown", 0)
    assert len(series) == 9
    folder = LocalFolder(tmp_path / "out")
    report(found, Source(str(store)), folder)
    report(found, Source(str(store)), folder)
    names = ["ages.png", "arrivals.png", "bytes.png", "messages.png", "report.html"]
    assert folder.names() == names
    for name in names[:-1]:
        assert folder.read(name).startswith(PNG)
        with Image.open(tmp_path / "out" / name) as image:
            assert len(image.convert("L").getcolors() or ()) > 5
    page = folder.read("report.html").decode()
    assert len(re.findall(r'src="data:image/png;base64,[\w+/]{1000,}=*"', page)) == 4
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert f"<dd>{len(lines)}</dd>" in page
    for fact in (store, platform.node(), "oldest sent (UTC)", "median age (days)", "largest (bytes)"):
        assert str(fact) in page
    assert [plot.png for plot in plots(found)] == [plot.png for plot in plots(found)]


def test_names_are_text_in_a_report(tmp_path: Path) -> None:
    plot = bars("x", "$1 <b>", {"<i>$2$": 3, "long " * 30: 1, **{str(n): n for n in range(30)}}, "n")
    table = Table("T", ["<col>"], [["<script>alert(1)</script>"], [None], [7], ["half \ud800"]])
    write_report(LocalFolder(tmp_path), "A <title>", {"key": "& value", "none": None}, [table], [plot])
    page = (tmp_path / "report.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "A &lt;title&gt;" in page
    assert '<td class="number">7</td>' in page
    assert "half \\ud800" in page


@pytest.mark.rule("S-456")
@pytest.mark.parametrize("kind", [LOCAL, SPARK])
def test_the_command(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    store = written_store(tmp_path, {"a": [{"body": "xy", "timestamp": 5 * MINUTE}]})
    (said,) = objects("pipeline", "stats", store, "--engine", kind, "--json", "--output", tmp_path / "out")
    assert said | {"medianAge": 0} == {
        "address": "a",
        "queue": "a",
        "messages": 1,
        "bytes": 2,
        "largest": 2,
        "large": 0,
        "redelivered": 0,
        "expired": 0,
        "oldest": 300_000,
        "newest": 300_000,
        "medianAge": 0,
        "perHour": None,
    }
    assert json.loads(json.dumps(said["medianAge"])) > NOW / 2
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    shown = journalfs("pipeline", "stats", store, "--engine", kind).stdout
    assert shown == "a\ta\t1\t2\t0\t0\t1970-01-01T00:05:00.000Z\t1970-01-01T00:05:00.000Z\t-\n"
    empty = written_store(tmp_path / "empty", {"a": []})
    assert (
        journalfs("pipeline", "stats", empty, "--engine", kind, "--output", tmp_path / "none").returncode == 0
    )
    assert "<dd>0</dd>" in (tmp_path / "none" / "report.html").read_text()
