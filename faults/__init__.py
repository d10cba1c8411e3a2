"""Imported as ``chaosflow.faults`` only: a bare ``import faults`` would shadow a user's own folder."""

if __name__ != "chaosflow.faults":
    raise ImportError("import chaosflow.faults, not faults: this folder is linked into the chaosflow package")
