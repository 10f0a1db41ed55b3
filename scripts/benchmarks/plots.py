"""Pictures of the results: one a group, bars from zero, with the range of the runs."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

SLICES = "Slices"
"""The group whose values are in the order of time."""
COLORS = ["#1b6ca8", "#d98032", "#6aa84f", "#8e7cc3", "#999999"]


def draw(what: str, results: list[dict[str, Any]], target: Path, caption: str) -> list[str]:
    """Draw every group into `target`/`what`-GROUP.png; results with different units get panels of their
    own.
    """
    names = []
    for group in dict.fromkeys(result["group"] for result in results):
        chosen = [result for result in results if result["group"] == group]
        name = f"{what}-{re.sub('[^a-z]+', '-', group.lower())}.png"
        if group == SLICES:
            _draw_slices(chosen, target / name, caption)
        else:
            _draw_group(group, chosen, target / name, caption)
        names.append(name)
    return names


def _draw_slices(results: list[dict[str, Any]], path: Path, caption: str) -> None:
    """How a rate goes on: one panel a result, one line a side."""
    figure, axes = plt.subplots(len(results), 1, figsize=(9, 0.9 + 2.4 * len(results)), squeeze=False)
    for axis, result in zip(axes[:, 0], results, strict=True):
        for color, (side, sample) in zip(COLORS, result["sides"].items(), strict=False):
            values = sample["values"]
            axis.plot(range(1, len(values) + 1), values, marker="o", color=color, label=side)
        axis.set_title("\n".join(textwrap.wrap(result["title"].replace("`", ""), 90)), fontsize=9)
        axis.set_ylim(bottom=0)
        axis.set_ylabel(result["unit"], fontsize=8)
        axis.tick_params(labelsize=8)
        axis.legend(fontsize=7)
        axis.grid(alpha=0.3)
    axes[-1, 0].set_xlabel("tenth of the messages", fontsize=8)
    figure.text(0.01, 0.005, caption, fontsize=7, color="#555555")
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_group(group: str, results: list[dict[str, Any]], path: Path, caption: str) -> None:
    panels = _panels(results)
    heights = [sum(len(result["sides"]) + 1 for result in panel) for panel in panels]
    figure, axes = plt.subplots(
        len(panels),
        1,
        figsize=(9, 0.9 + 0.36 * sum(heights) + 0.8 * len(panels)),
        squeeze=False,
        height_ratios=heights,
    )
    for axis, panel in zip(axes[:, 0], panels, strict=True):
        _draw_panel(axis, panel)
    figure.suptitle(f"{group}: medians; whiskers from least to most", fontsize=11)
    figure.text(0.01, 0.005, caption, fontsize=7, color="#555555")
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panels(results: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Results that one axis can show: the same unit, and values within a factor of eight of each other."""
    panels: list[list[dict[str, Any]]] = []
    for result in results:
        largest = max(side["maximum"] for side in result["sides"].values())
        for panel in panels:
            others = [side["maximum"] for other in panel for side in other["sides"].values()]
            if panel[0]["unit"] == result["unit"] and max(others) / 8 <= largest <= max(others) * 8:
                panel.append(result)
                break
        else:
            panels.append([result])
    return panels


def _draw_panel(axis: Any, panel: list[dict[str, Any]]) -> None:
    sides = list(dict.fromkeys(side for result in panel for side in result["sides"]))
    position, ticks, labels = 0.0, [], []
    for result in panel:
        first = position
        for side, sample in result["sides"].items():
            spread = [[sample["median"] - sample["minimum"]], [sample["maximum"] - sample["median"]]]
            axis.barh(
                position,
                sample["median"],
                0.85,
                color=COLORS[sides.index(side) % len(COLORS)],
                xerr=spread,
                error_kw={"elinewidth": 1, "capsize": 2},
            )
            axis.annotate(f" {sample['median']:.3g}", (sample["maximum"], position), va="center", fontsize=7)
            position += 1
        ticks.append((first + position - 1) / 2)
        labels.append("\n".join(textwrap.wrap(result["title"].replace("`", ""), 42)))
        position += 0.8
    axis.set_yticks(ticks, labels, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlim(left=0)
    axis.margins(x=0.08)
    better = panel[0]["better"]
    axis.set_xlabel(f"{panel[0]['unit']} ({better} is better)", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    handles = [Rectangle((0, 0), 1, 1, color=COLORS[index % len(COLORS)]) for index in range(len(sides))]
    legend = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": len(sides), "borderaxespad": 0.2}
    axis.legend(handles, sides, fontsize=7, **legend)
    axis.grid(axis="x", alpha=0.3)
