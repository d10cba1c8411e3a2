"""The charts as Bokeh models, and everything a page needs to draw them without any network request."""

from __future__ import annotations

import base64
import gzip
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from chaosflow.reports.areas import outline
from chaosflow.reports.chartspec import Area, Band, ChartBook, Heat, Line, Panel
from chaosflow.reports.heat import PALETTE

HEIGHT_PX = 150
LEFT_PX, RIGHT_PX = 54, 12
"""Room beside every plot; the timeline and the SVG plots of the page use the same."""
_GREY = "#8a8f98"
_FONT = "system-ui, DejaVu Sans, sans-serif"


@dataclass(frozen=True, slots=True)
class BokehPage:
    """What goes into the page."""

    library: str
    """BokehJS core without a single external URL in it: gzip, base64; a third of its size."""
    data_json: str
    """Documents and where to draw them; free of ``<``, so safe inside a script element."""
    element_ids: tuple[str, ...]
    """One per panel, in order."""


MOST_LABELLED = 24
"""Fault bands that are drawn each by itself, with number and hatch."""


def bokeh_page(book: ChartBook) -> BokehPage:
    """Models of all panels, in one document so that they share one time axis."""
    from bokeh.core.json_encoder import serialize_json
    from bokeh.document import Document

    figures = _figures(book)
    document = Document()
    ids = {figure.id: f"chart-{panel.key}" for figure, panel in zip(figures, book.panels, strict=True)}
    with document.models.freeze():  # else every root makes it look through all models again
        for figure in figures:
            document.add_root(figure)
    item = {"docid": "charts", "roots": ids, "root_ids": list(ids)}
    data = {"docs": {"charts": document.to_json(deferred=False)}, "items": [item]}
    return BokehPage(
        library=_packed_library(),
        data_json=serialize_json(data).replace("<", "\\u003c"),
        element_ids=tuple(ids.values()),
    )


@cache
def _packed_library() -> str:
    return base64.b64encode(gzip.compress(library_js().encode(), 9, mtime=0)).decode()


def library_js() -> str:
    """BokehJS core as text; nothing in it refers to any host."""
    import bokeh

    folder = Path(bokeh.__file__).parent / "server" / "static" / "js"
    text = (folder / "bokeh.min.js").read_text(encoding="utf-8")
    # What could ever be fetched (MathJax, icon fonts, maps) or followed has no place in an offline file;
    # w3.org names are XML namespaces, not addresses.
    return re.sub(r"https?://(?!www\.w3\.org/)", "about:blank#", text)


def _models() -> Any:
    """bokeh.models, whose classes are found at run time and hidden from type checkers."""
    return import_module("bokeh.models")


def _figures(book: ChartBook) -> list[Any]:
    m = _models()
    x_range = m.Range1d(start=book.begin_s, end=book.end_s, bounds=(book.begin_s, book.end_s))
    sources = {name: m.ColumnDataSource(columns) for name, columns in book.sources.items()}
    cross = m.Span(dimension="height", line_color=_GREY, line_dash="dotted", line_width=1)
    figures = []
    for panel in book.panels:
        fig = _empty_figure(panel, x_range)
        if len(book.bands) > MOST_LABELLED:
            _add_all_bands(fig, book)
        else:
            for band in book.bands:
                _add_band(fig, band, panel.y_max, book)
        if panel.heat is not None:
            _add_heat(fig, panel.heat)
        for area in panel.areas:
            _add_area(fig, area)
        renderers = [_add_line(fig, line, sources) for line in panel.lines]
        _add_limits(fig, panel)
        fig.add_tools(m.CrosshairTool(overlay=cross, dimensions="height"))
        if renderers:
            fig.add_tools(_hover(panel, renderers))
        figures.append(fig)
    if figures:
        _name_the_axis(figures[-1])
    return figures


def _empty_figure(panel: Panel, x_range: Any) -> Any:
    from bokeh.plotting import figure

    m = _models()
    fig = figure(
        height=HEIGHT_PX,
        sizing_mode="stretch_width",
        x_range=x_range,
        y_range=m.Range1d(start=0, end=panel.y_max),
        tools="xbox_zoom,reset",
        toolbar_location=None,
        min_border_left=LEFT_PX,
        min_border_right=RIGHT_PX,
        min_border_top=4,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
    )
    fig.yaxis.formatter = m.BasicTickFormatter(use_scientific=False)
    fig.yaxis.ticker = m.BasicTicker(desired_num_ticks=4)
    if panel.y_ticks:
        fig.yaxis.ticker = m.FixedTicker(ticks=[place for place, _ in panel.y_ticks])
        fig.yaxis.major_label_overrides = dict(panel.y_ticks)
    fig.xaxis.ticker = m.BasicTicker(desired_num_ticks=8)
    for axis in (fig.xaxis, fig.yaxis):
        axis.major_label_text_font_size = "11px"
        axis.major_label_text_font = _FONT
        axis.minor_tick_line_color = None
        axis.axis_line_color = None
        axis.major_tick_line_color = None
    fig.xgrid.grid_line_color = None
    fig.grid.grid_line_alpha = 0.25
    return fig


def _name_the_axis(fig: Any) -> None:
    fig.height += 28
    fig.xaxis.axis_label = "seconds from the beginning of the baseline"
    fig.xaxis.axis_label_text_font_size = "11px"
    fig.xaxis.axis_label_text_font = _FONT
    fig.xaxis.axis_label_text_font_style = "normal"


def _hover(panel: Panel, renderers: list[Any]) -> Any:
    """All values of one second; lines of other sources have other seconds and are left out."""
    first = panel.lines[0].source
    lines = [line for line in panel.lines if line.source == first]
    tips = [(_plain(line.label), f"@{{{line.column}}}{{0,0.0}} {panel.unit}") for line in lines]
    return _models().HoverTool(
        renderers=renderers[:1], mode="vline", tooltips=[("second", "@t{0.0}"), *tips], point_policy="none"
    )


def _add_line(fig: Any, line: Line, sources: dict[str, Any]) -> Any:
    return fig.line(
        x="t",
        y=line.column,
        source=sources[line.source],
        line_color=line.colour,
        line_width=line.width,
        line_join="round",
        line_cap="round",
    )


def _add_band(fig: Any, band: Band, y_max: float, book: ChartBook) -> None:
    m = _models()
    fig.add_layout(
        m.BoxAnnotation(
            left=band.begin_s,
            right=band.end_s,
            fill_color=band.colour,
            fill_alpha=0.16,
            hatch_pattern=band.hatch,
            hatch_color=band.colour,
            hatch_alpha=0.35,
            hatch_scale=9,
            line_color=band.colour,
            line_alpha=0.8,
            line_width=1,
            level="underlay",
        )
    )
    if band.recovered_s is not None:
        mark = {"line_color": band.colour, "line_dash": "dotted", "line_width": 1.5, "line_alpha": 0.9}
        fig.add_layout(m.Span(location=band.recovered_s, dimension="height", level="underlay", **mark))
    share = (band.end_s - band.begin_s) / (book.end_s - book.begin_s)
    long = f"{band.number} {_plain(band.name)}"
    fig.add_layout(
        m.Label(
            x=band.begin_s,
            y=y_max,
            x_offset=3,
            y_offset=-2,
            text=long if share * 900 > 7 * len(long) else str(band.number),
            # the page shortens labels to the number where it is narrow
            tags=["band", str(band.number), share, long],
            text_font=_FONT,
            text_font_size="11px",
            text_baseline="top",
            text_font_style="bold",
        )
    )


def _add_all_bands(fig: Any, book: ChartBook) -> None:
    """Very many faults as one glyph: each drawn by itself would cost minutes and megabytes."""
    fig.vstrip(
        x0=[band.begin_s for band in book.bands],
        x1=[band.end_s for band in book.bands],
        fill_color=[band.colour for band in book.bands],
        fill_alpha=0.16,
        line_alpha=0,
        level="underlay",
    )


def _add_heat(fig: Any, heat: Heat) -> None:
    rows, _ = heat.levels.shape
    mapper = _models().LinearColorMapper(palette=list(PALETTE), low=-0.5, high=len(PALETTE) - 0.5)
    fig.image(
        image=[heat.levels], x=heat.begin_s, y=0, dw=heat.end_s - heat.begin_s, dh=rows, color_mapper=mapper
    )


def _add_area(fig: Any, area: Area) -> None:
    """One glyph; a hole parts it in two."""
    xs, ys = outline(area)
    fig.patch(x=xs, y=ys, fill_color=area.colour, fill_alpha=area.alpha, line_color=None)


def _add_limits(fig: Any, panel: Panel) -> None:
    for limit in panel.limits:
        x = np.array([x for begin, end in limit.spans for x in (begin, end, np.nan)])
        y = np.full(len(x), limit.y)
        fig.line(x=x, y=y, line_dash=[6, 4], line_width=1.5, line_color=_GREY, tags=["limit"])


def _plain(text: str) -> str:
    """Text that BokehJS does not take for TeX, which it would want to load MathJax for."""
    return re.sub(r"\$\$|\\[(\[\])]", " ", text)
