"""What documents, dashboard and alerts say of metrics is what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from journalfs.engine.waiting import Slices
from journalfs.live.virtual import made_at_once
from journalfs.metrics.families import BY_NAME, FAMILIES
from journalfs.metrics.samples import Samples
from tests.tidy.sources import ROOT

EXAMPLES = ROOT / "docs" / "examples"
ALERTS, DASHBOARD = EXAMPLES / "journalfs-alerts.yml", EXAMPLES / "journalfs-dashboard.json"
_METRIC = re.compile(r"\bjournalfs_\w+")


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def expressions() -> Iterator[tuple[str, str]]:
    """Queries, and the texts that name their labels."""
    for rule in alerts():
        yield rule["expr"], rule["annotations"]["summary"]
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


def test_the_page_lists_every_metric() -> None:
    page = (ROOT / "docs/operate/watch.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `journalfs_")]
    assert len(rows) == len(FAMILIES)
    for row, one in zip(rows, FAMILIES, strict=True):
        labels = ", ".join(f"`{label}`" for label in one.labels) or "-"
        assert row == f"| `{one.name}` | {one.kind} | {labels} | {one.help} |"


def test_names_are_as_prometheus_wants_them() -> None:
    assert len(BY_NAME) == len(FAMILIES)
    for one in FAMILIES:
        assert re.fullmatch(r"journalfs_[a-z_]+", one.name)
        assert one.name.endswith("_total") == (one.kind == "counter"), one.name
        assert not re.search(r"_(count|sum|bucket|info|milliseconds|ms|kb|mb|percent)$", one.name), one.name
        assert one.help.endswith("."), one.name
        assert not {"le", "quantile", "store", "instance", "job"} & set(one.labels), one.name


@pytest.mark.parametrize(("query", "said"), list(expressions()))
def test_dashboard_and_alerts_name_metrics_and_labels_that_exist(query: str, said: str) -> None:
    names = _METRIC.findall(query)
    assert names, query
    labels = {"store"}.union(*(BY_NAME[name].labels for name in names))
    used = {*re.findall(r"\$labels\.(\w+)", said), *re.findall(r"{{ *(\w+) *}}", said)}
    used |= {one.strip() for found in re.findall(r"by \(([^)]*)\)", query) for one in found.split(",")}
    used |= set(re.findall(r"[{,](\w+)=", query))
    assert used <= labels, query
    counters = [name for name in names if BY_NAME[name].kind == "counter"]
    assert all(re.search(rf"(rate|increase)\({name}\b", query) for name in counters), query


def test_every_alert_says_what_and_what_to_do() -> None:
    rules = alerts()
    assert all(rule["labels"]["severity"] in ("critical", "warning") for rule in rules)
    page = (ROOT / "docs/recipes/monitoring.md").read_text()
    named = re.findall(r"`(Journalfs\w+)`", page)
    assert sorted(named) == sorted(rule["alert"] for rule in rules)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here")
def test_promtool_takes_the_alerts_and_the_metrics(tmp_path: Path) -> None:
    subprocess.run(["promtool", "check", "rules", str(ALERTS)], check=True, capture_output=True)
    samples = Samples()
    for one in FAMILIES:
        samples.add(one.name, 1, *("x" for _ in one.labels))
    text = made_at_once(samples.text(Slices.none()))
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
