"""What a rig is: something real that one kind of fault can act on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chaosflow.core.host import Host


@dataclass
class Rig:
    params: dict[str, Any]
    host: Host
    look: Callable[[], Any]
    """The state that a fault of this kind changes, comparable with ``==``."""
    drive: Callable[[], None] = field(default=lambda: None)
    """Make the traffic that shows the effect."""
