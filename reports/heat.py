"""A latency heat map as a picture: time across, latency upwards in steps of 25 %, colour by how often."""

from __future__ import annotations

import base64
import math
import struct
import zlib

import numpy as np
import numpy.typing as npt

from chaosflow.core.result import HeatMap
from chaosflow.reports.chartspec import BLUE, Heat, Panel

LEVELS = 10
"""Colour 0 is nothing at all; the others grow with the logarithm of the count."""
PALETTE = (
    "#00000000",
    *(f"{BLUE}{round(255 * (0.14 + 0.86 * i / (LEVELS - 2))):02x}" for i in range(LEVELS - 1)),
)
"""One hue, ever less transparent, so that it reads on white and on black."""


def heat_panel(heat: HeatMap, title: str) -> Panel:
    """The panel of one map; its vertical axis counts rows and is labelled in ms."""
    counts = np.array(heat.counts, dtype=np.float64)
    most = max(1.0, float(counts.max()))
    levels = np.ceil((LEVELS - 1) * np.log1p(counts) / math.log1p(most)).astype(np.uint8)
    rows, columns = levels.shape
    image = Heat(levels, heat.begin_s, heat.begin_s + columns * heat.column_s, int(most))
    return Panel(
        f"heat_{heat.metric}",
        title,
        f"ms, logarithmic; darkest = {int(most):,} in {heat.column_s:g} s",
        (),
        y_max=float(rows),
        heat=image,
        y_ticks=_ticks(heat.edges_ms, rows),
    )


def _ticks(edges_ms: list[float], rows: int) -> tuple[tuple[float, str], ...]:
    """Powers of ten, with 2 and 5 where there is room."""
    low, high = max(edges_ms[0], 1e-3), edges_ms[-1]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    step = math.log(high / low) / rows

    def place(ms: float) -> float:
        return math.log(ms / low) / step

    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [f * 10.0**d for d in decades for f in factors if low <= f * 10.0**d <= high]
        if len(found) <= 5:
            break
    return tuple((round(place(ms), 3), f"{ms:,g}") for ms in found)


def png(levels: npt.NDArray[np.uint8]) -> str:
    """Levels (rows from the bottom, columns) as a data URI: a palette PNG (PNG 1.2, colour type 3)."""
    rows, columns = levels.shape
    colours = b"".join(bytes.fromhex(c[1:7]) for c in PALETTE)
    alphas = b"".join(bytes.fromhex(c[7:9]) for c in PALETTE)
    lines = b"".join(b"\0" + levels[row].tobytes() for row in range(rows - 1, -1, -1))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
        (b"PLTE", colours),
        (b"tRNS", alphas),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()
