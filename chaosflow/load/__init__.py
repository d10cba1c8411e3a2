"""Floor 1: Locust and the streaming client; gevent lives only here.

``StreamingUser`` is for locustfiles of the user's own; it is imported only when asked for, and with it gevent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaosflow.load.user import Answer, StreamingUser

__all__ = ["Answer", "StreamingUser"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'chaosflow.load' has no attribute {name!r}")
    from chaosflow.load import user

    return getattr(user, name)
