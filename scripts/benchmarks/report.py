"""Writing results: JSON, pictures and the section of docs/inside/benchmarks.md that is about them."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from scripts.benchmarks.measure import Result, as_json
from scripts.benchmarks.plots import draw


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
    lines = [f"Measured on {describe(machine)}. Raw values: [bench/{what}.json](bench/{what}.json)."]
    loads = [result["load"] for result in results if result.get("load") is not None]
    if loads:
        lines[0] += (
            f" Load average of the machine when each measurement was over, its own work included: "
            f"{min(loads):.1f} to {max(loads):.1f}, median {statistics.median(loads):.1f}."
        )
    groups = list(dict.fromkeys(result["group"] for result in results))
    for group, picture in zip(groups, pictures, strict=True):
        lines += [
            "",
            f"### {group}",
            "",
            f"![{group}](bench/{picture})",
            "",
            "| what | journalfs | compared with | ratio | goal | n |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        chosen = [result for result in results if result["group"] == group]
        lines += [_row(result) for result in chosen]
        notes = dict.fromkeys(result["note"] for result in chosen if result["note"])
        lines += ["", *notes] if notes else []
    return "\n".join(lines)


def _row(result: dict[str, Any]) -> str:
    sides = dict(result["sides"])
    ours = sides.pop("journalfs")
    others = "<br>".join(f"{name}: {_sample(sample)}" for name, sample in sides.items())
    ratio = result["ratio"]
    shown = f"{ratio['median']:.2f} ({ratio['minimum']:.2f}-{ratio['maximum']:.2f})" if ratio else ""
    goal = result["goal"]
    wanted = ""
    if goal:
        unit = "" if goal["of"] == "ratio" else f" {result['unit']}"
        wanted = (
            f"{goal['relation']} {goal['value']:.3g}{unit}: {'**met**' if result['met'] else '**missed**'}"
        )
    unit = result["unit"]
    cells = [result["title"], f"{_sample(ours)} {unit}", others, shown, wanted, str(len(ours["values"]))]
    return f"| {' | '.join(cells)} |"


def _sample(sample: dict[str, Any]) -> str:
    if len(sample["values"]) == 1:
        return f"{sample['median']:.3g}"
    return f"{sample['median']:.3g} ({sample['minimum']:.3g}-{sample['maximum']:.3g})"
