"""Imported as ``chaosflow.reports`` only: a bare ``import reports`` would shadow a user's own folder."""

if __name__ != "chaosflow.reports":
    raise ImportError(
        "import chaosflow.reports, not reports: this folder is linked into the chaosflow package"
    )
