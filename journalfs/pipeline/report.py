"""Reports for people: plots as PNG files, and one HTML page that has all of them and the tables in it."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from journalfs.errors import DependencyMissing
from journalfs.pipeline.session import INSTALL
from journalfs.pipeline.times import FIRST_DATE_MS, LAST_DATE_MS, date_of

if TYPE_CHECKING:
    from jinja2 import Template

    from journalfs.pipeline.folders import Folder

PAGE: Final = "report.html"
_BARS_MAX: Final = 20
"""What fits into a plot and can be read."""
_INCHES: Final = (9.0, 4.5)
_DOTS: Final = 110


@dataclass(frozen=True, slots=True)
class Table:
    """Cells are texts, numbers, or None for nothing."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """`name` is its file's, without the suffix."""

    name: str
    title: str
    png: bytes

    @property
    def base64(self) -> str:
        return base64.b64encode(self.png).decode()


def require_libraries() -> None:
    """What a report takes, before the work that it is to report. Raises `DependencyMissing`."""
    _template()
    _agg()


def write_report(
    folder: Folder, title: str, facts: Mapping[str, object], tables: Sequence[Table], plots: Sequence[Plot]
) -> None:
    """Write the plots, and the page. What a former report left there is replaced. Raises `SystemFailure`."""
    folder.make()
    for plot in plots:
        folder.write(f"{plot.name}.png", plot.png)
    page = _template().render(title=title, facts=facts, tables=tables, plots=plots)
    folder.write(PAGE, page.encode("utf-8", "backslashreplace"))


def bars(name: str, title: str, values: Mapping[str, float], unit: str) -> Plot:
    """The largest of the values as bars, the largest on top; the rest together."""
    ordered = sorted(values.items(), key=lambda one: -one[1])
    shown, rest = ordered[:_BARS_MAX], ordered[_BARS_MAX:]
    if rest:
        shown.append((f"{len(rest)} others", sum(value for _, value in rest)))
    figure, axes = _axes(title, height_inches=1.2 + 0.3 * max(len(shown), 2))
    axes.barh([_short(label) for label, _ in reversed(shown)], [value for _, value in reversed(shown)])
    axes.set_xlabel(unit)
    axes.xaxis.set_major_formatter(_short_numbers())
    return Plot(name, title, _png(figure))


def steps(
    name: str, title: str, edges_ms: Sequence[int], series: Mapping[str, Sequence[float]], unit: str
) -> Plot:
    """Values of stretches of time, one on top of the other: each from one edge to the next."""
    figure, axes = _axes(title)
    draw_steps(axes, edges_ms, series)
    if edges_ms:
        figure.legend(fontsize="small", loc="outside right upper")
    axes.set_ylabel(unit)
    axes.yaxis.set_major_formatter(_short_numbers())
    return Plot(name, title, _png(figure))


def draw_steps(axes: Any, edges_ms: Sequence[int], series: Mapping[str, Sequence[float]]) -> None:
    """The same into a plot. Times that have no date are numbers."""
    if not edges_ms:
        return
    edges: Sequence[Any] = edges_ms
    if all(FIRST_DATE_MS <= one <= LAST_DATE_MS for one in edges_ms):
        edges = [date_of(one) for one in edges_ms]
    else:
        edges = [float(one) for one in edges_ms]
        axes.set_xlabel("ms since 1970")
    # What a step has it has up to the next one, so that the last needs one behind it.
    rows = [[*values, values[-1]] for values in series.values()]
    axes.stackplot(edges, rows, labels=[_short(one) for one in series], step="post")
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", integer=True)
    axes.tick_params("x", rotation=30)


def columns(name: str, title: str, values: Mapping[str, float], unit: str) -> Plot:
    """Values of classes, in the order they are given in."""
    figure, axes = _axes(title)
    axes.bar(list(values), list(values.values()))
    axes.set_ylabel(unit)
    axes.yaxis.set_major_formatter(_short_numbers())
    return Plot(name, title, _png(figure))


def _agg() -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - may not be installed
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise DependencyMissing("a plot", package="Matplotlib", install=INSTALL) from None
    return FigureCanvasAgg, Figure


def _axes(title: str, height_inches: float = _INCHES[1]) -> tuple[Any, Any]:
    FigureCanvasAgg, Figure = _agg()  # noqa: N806 - classes
    figure = Figure(figsize=(_INCHES[0], height_inches), dpi=_DOTS, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.grid(visible=True, alpha=0.3)
    axes.set_axisbelow(True)
    return figure, axes


def _short_numbers() -> Any:
    from matplotlib.ticker import EngFormatter  # noqa: PLC0415 - as above

    return EngFormatter(sep="")


def _png(figure: Any) -> bytes:
    written = io.BytesIO()
    # Without the version of the library in it, the same values give the same file.
    figure.savefig(written, format="png", metadata={"Software": None})
    return written.getvalue()


def _short(label: str) -> str:
    """Of a long name its ends; `$` would begin a formula."""
    cut = label if len(label) <= 40 else f"{label[:19]}…{label[-20:]}"
    return cut.replace("$", r"\$")


@cache
def _template() -> Template:
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - may not be installed
    except ImportError:
        raise DependencyMissing("a report", package="Jinja", install=INSTALL) from None
    text = files("journalfs.pipeline").joinpath("report.html.jinja").read_text(encoding="utf-8")
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(text)
