"""The skeleton that every page shares: offline, inert text, light and dark, printable.

A page is a template that extends ``_page.html.j2`` (blocks ``title``, ``main``, ``scripts``) and uses the macros of
``_parts.html.j2``; its style is ``style.css``. Charts: make a ``ChartBook`` (chartspec.py; a run's by chartbook.py), pass
``book``, ``plots=[svg_plot(p, book) for p in book.panels]`` and ``bokeh=bokeh_page(book)``, and call
``parts.charts(book, plots, bokeh)``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import chaosflow
from chaosflow.core.units import format_duration
from chaosflow.reports import words
from chaosflow.reports.bokeh_charts import LEFT_PX, RIGHT_PX
from chaosflow.reports.svg_charts import in_words

MAX_BYTES = 2_000_000
"""A report is mailed and attached; reports of 100 MB (guidellm 984, pytest-html 552) are not."""


def render_page(template: str, **context: Any) -> str:
    """A template of reports/templates as text. Every value is escaped; a name that is missing raises.

    ``bokeh`` may be left out (no charts). Does not write a file and does not look at the size.
    """
    page: str = environment().get_template(template).render({"bokeh": None} | context)
    return page


@cache
def environment() -> Environment:
    """Templates see ``words``, ``duration``, ``stamp``, ``version``, ``left_px`` and ``right_px``."""
    made = Environment(
        loader=PackageLoader("chaosflow.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "words": words,
        "duration": format_duration,
        "stamp": stamp,
        "in_words": in_words,
        "version": chaosflow.__version__,
        "left_px": LEFT_PX,
        "right_px": RIGHT_PX,
    }
    return made


def stamp(utc: str) -> Markup:
    """``2026-03-02T10:15:00.120Z`` as a ``<time>`` element, in UTC until the reader asks for local time."""
    if not utc:
        return Markup(words.NONE)
    text = utc.split(".")[0].rstrip("Z").replace("T", " ") + " UTC"
    return Markup('<time datetime="{}">{}</time>').format(escape(utc), text)
