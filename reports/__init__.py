"""What a run is told with. Imported as ``chaosflow.reports`` only: a bare name would shadow a user's own folder.

Every page shares one skeleton: ``page.render_page`` (templates/_page.html.j2, _parts.html.j2, style.css) and the
charts of ``chartspec`` (what a chart is; ``chartbook`` makes a run's), ``bokeh_charts`` (interactive) and
``svg_charts`` (paper, no scripts); ``sparkline`` draws small ones. ``words`` says numbers and states the same everywhere.
"""

if __name__ != "chaosflow.reports":
    raise ImportError(
        "import chaosflow.reports, not reports: this folder is linked into the chaosflow package"
    )
