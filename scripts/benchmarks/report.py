"""Writing results: JSON, pictures and the section of docs/inside/benchmarks.md that is about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.benchmarks.measure import Result, as_json
from scripts.benchmarks.plots import draw

VARIANTS = ("NIO", "MAPPED", "ASYNCIO", "one processor", "free", "warm", "cold", "rendered")
"""Parts of titles: results that differ only in one share a row."""


def write(
    what: str, results: list[Result], machine: dict[str, str | int], target: Path, document: Path | None
) -> None:
    """Merge `results` into `target`/`what`.json by identifier, redraw the pictures, rewrite the section."""
    target.mkdir(parents=True, exist_ok=True)
    path = target / f"{what}.json"
    begin, end = f"<!-- {what}: begin (written by scripts/bench {what}) -->", f"<!-- {what}: end -->"
    kept: dict[str, dict[str, Any]] = {}
    if path.exists():
        kept = {result["identifier"]: result for result in json.loads(path.read_text())["results"]}
    kept |= {result.identifier: as_json(result) for result in results}
    merged = list(kept.values())
    path.write_text(json.dumps({"machine": machine, "results": merged}, indent=1) + "\n")
    pictures = draw(what, merged, target, describe(machine))
    if document is not None:
        section = f"{begin}\n{_section(what, merged, machine, pictures)}\n{end}"
        text = document.read_text() if document.exists() else "# Benchmarks\n\n" + begin + end + "\n"
        before, _, rest = text.partition(begin)
        document.write_text(before + section + rest.partition(end)[2])


def describe(machine: dict[str, str | int]) -> str:
    return (
        f"{machine['cores']} cores ({machine['architecture']}), {machine['memory_gib']} GiB memory, "
        f"{machine['kernel']}, {machine['filesystem']}, Python {machine['python']}"
    )


def _section(
    what: str, results: list[dict[str, Any]], machine: dict[str, str | int], pictures: list[str]
) -> str:
    lines = [f"{describe(machine)}; values: [{what}.json](bench/{what}.json)."]
    loads = [result["load"] for result in results if result.get("load") is not None]
    if loads:
        lines[0] += f" Load {min(loads):.1f} to {max(loads):.1f}."
    lines += ["", "| what | journalfs | beside | ratio | goal |", "| --- | --- | --- | --- | --- |"]
    notes: list[str] = []
    groups = list(dict.fromkeys(result["group"] for result in results))
    for group, picture in zip(groups, pictures, strict=True):
        chosen = [result for result in results if result["group"] == group]
        runs = sorted({len(result["sides"]["journalfs"]["values"]) for result in chosen})
        lines.append(f"| **[{group}](bench/{picture})**, n={'/'.join(map(str, runs))} | | | | |")
        lines += [_row(row) for row in _rows(chosen)]
        said = dict.fromkeys(result["note"].removesuffix(".") for result in chosen if result["note"])
        if said:
            notes.append(f"* {group}: {'; '.join(said)}.")
    return "\n".join([*lines, "", *notes])


def _rows(results: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Results whose titles differ only in a variant stand in one row."""
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for result in results:
        title, variant = _title(result)
        key = (title, result["unit"], *result["sides"]) if variant else (result["identifier"],)
        rows.setdefault(key, []).append(result)
    return list(rows.values())


def _title(result: dict[str, Any]) -> tuple[str, str]:
    """(what is measured, its variant or nothing)."""
    for variant in VARIANTS:
        if f", {variant}" in result["title"]:
            return result["title"].replace(f", {variant}", "", 1), variant
    return result["title"], ""


def _row(results: list[dict[str, Any]]) -> str:
    title, variant = _title(results[0])
    title += f", {results[0]['unit']}"
    if variant:
        title += ": " + ", ".join(_title(result)[1] for result in results)
    ours = [_sample(result["sides"]["journalfs"], spread=not result["ratio"]) for result in results]
    compared = results[0]["against"]
    names = sorted(results[0]["sides"].keys() - {"journalfs"}, key=lambda name: (name != compared, name))
    others = [
        f"{name} {'; '.join(_number(one['sides'][name]['median']) for one in results)}" for name in names
    ]
    ratios = [_sample(result["ratio"], spread=True) if result["ratio"] else "" for result in results]
    cells = [title, "<br>".join(ours), "<br>".join(others), "<br>".join(ratios), _goals(results)]
    return f"| {' | '.join(cells)} |"


def _goals(results: list[dict[str, Any]]) -> str:
    """Of every result when they are alike, else of each."""
    goals = [_goal(result) for result in results]
    return goals[0] if len(set(goals)) == 1 else "<br>".join(goals)


def _goal(result: dict[str, Any]) -> str:
    goal = result["goal"]
    if not goal:
        return ""
    of = "ratio " if goal["of"] == "ratio" and len(result["sides"]) > 2 else ""
    sign = "≥" if goal["relation"] == "at least" else "≤"
    return f"{of}{sign}{_number(goal['value'])} {'met' if result['met'] else '**missed**'}"


def _sample(sample: dict[str, Any], *, spread: bool) -> str:
    shown = _number(sample["median"])
    if spread and len(sample["values"]) > 1:
        shown += f" ({_number(sample['minimum'])}-{_number(sample['maximum'])})"
    return shown


def _number(value: float) -> str:
    """Three digits, without an exponent."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 1000 else f"{rounded:g}"
