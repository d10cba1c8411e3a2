"""What tests tell at the end of the run, from whatever worker: mechanisms used, figures measured."""

from __future__ import annotations

import platform

from chaosflow.core.fault import Undo

_told: list[str] = []


def tell(text: str) -> None:
    """Have this line printed behind the last test, once however often it is told."""
    if text not in _told:
        _told.append(text)


def tell_rung(undo: Undo, rung: str = "") -> None:
    """Tell by which of several mechanisms a fault acts here; nothing where there is only one."""
    if rung := str(undo.state.get("rung") or rung):
        tell(f"{undo.kind} by {rung} (kernel {platform.release()})")


def taken() -> list[str]:
    """What was told since the last call."""
    lines = list(_told)
    _told.clear()
    return lines
