"""What is shipped for Prometheus and Grafana: rules, an example configuration, a dashboard."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from chaosflow.core.errors import UsageError

DASHBOARD, RULES, CONFIG = "chaosflow-dashboard.json", "chaosflow-rules.yml", "prometheus.yml"
FILES = (DASHBOARD, RULES, CONFIG)


def monitoring_text(name: str) -> str:
    """The content of one of FILES."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def write_monitoring(folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write all of FILES into ``folder``, made where missing; returns their paths.

    Raises UsageError where one is there already and ``overwrite`` is not set (nothing is written then),
    or where the folder cannot be written.
    """
    paths = [folder / name for name in FILES]
    there = [str(path) for path in paths if path.exists()]
    if there and not overwrite:
        raise UsageError(", ".join(there), "is there already", "choose another folder, or --force")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            path.write_text(monitoring_text(path.name), encoding="utf-8")
    except OSError as e:
        raise UsageError(str(folder), f"cannot be written ({e.strerror})", "choose another --out") from e
    return paths
