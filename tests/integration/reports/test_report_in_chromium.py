"""report.html in a real browser: the charts are drawn, nothing is complained of, nothing is fetched."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chaosflow.reports.html import render_html

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "reports"))
from sample_result import sample

_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_CHROMIUM is None, reason="no chromium on PATH; apt-get install chromium"),
]
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    "--host-resolver-rules=MAP * ~NOTFOUND",  # the browser's own look-ups go nowhere either
    *("--hide-scrollbars", "--enable-logging=stderr", "--virtual-time-budget=15000"),
    "--window-size=1280,4000",
)


def _chromium(folder: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    assert _CHROMIUM is not None
    command = [_CHROMIUM, *_OPTIONS, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(render_html(sample()), encoding="utf-8")
    return path


def test_charts_are_drawn_without_complaint(tmp_path: Path, page: Path) -> None:
    done = _chromium(tmp_path, page, "--dump-dom")
    root = re.search(r"<html[^>]*>", done.stdout)
    assert root is not None, done.stderr
    assert 'data-charts="14"' in root[0], done.stderr
    assert "data-chart-error" not in root[0]
    complaints = [
        line
        for line in done.stderr.splitlines()
        if "CONSOLE" in line and ("error" in line.lower() or "refused" in line.lower() or "W-10" in line)
    ]
    assert complaints == []


def test_charts_that_are_not_drawn_are_noticed_and_the_drawings_stay(tmp_path: Path, page: Path) -> None:
    """guidellm 303 the other way round: what the test above looks for is not there when the library is broken."""
    page.write_text(page.read_text().replace('id="library">', 'id="library">AAAA', 1))
    done = _chromium(tmp_path, page, "--dump-dom")
    root = re.search(r"<html[^>]*>", done.stdout)
    assert root is not None, done.stderr
    assert "data-charts=" not in root[0]
    assert "data-chart-error" in root[0]


_WATCH = """<script>
let refused = 0;
addEventListener("securitypolicyviolation", () => refused++);
addEventListener("load", () => setTimeout(() => {
  const fetched = performance.getEntriesByType("resource").filter((r) => !r.name.startsWith("data:"));
  document.documentElement.dataset.fetched = fetched.length + "," + refused;
}, 3000));
</script>"""


@pytest.mark.parametrize("extra", ["", '<img src="http://127.0.0.1:9/x.png">'])
def test_nothing_is_fetched(tmp_path: Path, page: Path, extra: str) -> None:
    """guidellm 303. A page that does ask for something shows that the test would see it."""
    page.write_text(
        page.read_text().replace("<body", f"{_WATCH}<body", 1).replace("<main>", f"<main>{extra}")
    )
    done = _chromium(tmp_path, page, "--dump-dom")
    found = re.search(r'data-fetched="(\d+),(\d+)"', done.stdout)
    assert found is not None, done.stderr
    assert (found[1] != "0" or found[2] != "0") == bool(extra)


_USE = """<script>setTimeout(() => {
  const range = Bokeh.documents[0].roots()[0].x_range, before = range.end - range.start;
  document.getElementById("local-times").click();
  document.getElementById("charts").dispatchEvent(new KeyboardEvent("keydown", {key: "+"}));
  const share = (range.end - range.start) / before;
  const started = document.querySelector(".facts time").textContent;
  document.documentElement.dataset.used = share + "," + started;
}, 5000)</script>"""


def test_local_times_and_zoom_by_keyboard(
    tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    page.write_text(page.read_text().replace("</body>", f"{_USE}</body>", 1))
    done = _chromium(tmp_path, page, "--dump-dom")
    found = re.search(r'data-used="([\d.]+),([^"]*)"', done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) == pytest.approx(0.5)
    assert found[2] == "2026-03-02 19:15:00", "10:15 UTC is evening in Tokyo"


def test_script_in_a_name_is_inert(tmp_path: Path) -> None:
    evil = "<img src=x onerror=\"document.documentElement.dataset.owned='1'\"><script>document.documentElement.dataset.owned='1'</script>"
    result = sample(name=evil, reason=evil, notes=[evil], description=evil)
    result.faults[0].name = evil
    result.probes[f"engine.running {evil}"] = result.probes["engine.running_requests"]
    path = tmp_path / "evil.html"
    path.write_text(render_html(result), encoding="utf-8")
    done = _chromium(tmp_path, path, "--dump-dom")
    root = re.search(r"<html[^>]*>", done.stdout)
    assert root is not None, done.stderr
    assert "data-owned" not in root[0]
    assert 'data-charts="14"' in root[0]


def test_without_javascript_the_drawn_page_still_has_charts(tmp_path: Path, page: Path) -> None:
    """The pixels: Okabe-Ito blue is on the page though every script is gone."""
    from PIL import Image  # a dependency of Bokeh

    bare = tmp_path / "bare.html"
    bare.write_text(re.sub(r"<script.*?</script>", "", page.read_text(), flags=re.DOTALL))
    for name, path in (("drawn", page), ("bare", bare)):
        shot = tmp_path / f"{name}.png"
        _chromium(tmp_path, path, f"--screenshot={shot}")
        with Image.open(shot) as image:
            colours = image.convert("RGB").crop((0, 2000, 1280, 3900)).getcolors(1 << 24) or []
        blue = sum(n for n, rgb in colours if isinstance(rgb, tuple) and rgb == (0x00, 0x72, 0xB2))
        assert blue > 300, name
