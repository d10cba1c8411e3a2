"""Imported as ``chaosflow.engine`` only: a bare ``import engine`` would shadow a user's own folder."""

if __name__ != "chaosflow.engine":
    raise ImportError("import chaosflow.engine, not engine: this folder is linked into the chaosflow package")
