"""Imported as ``chaosflow.probes`` only: a bare ``import probes`` would shadow a user's own folder."""

if __name__ != "chaosflow.probes":
    raise ImportError("import chaosflow.probes, not probes: this folder is linked into the chaosflow package")
