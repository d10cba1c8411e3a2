"""The load process, but the first batch of cells never arrives, as when a connection breaks under it."""

from __future__ import annotations

from gevent import monkey

if __name__ == "__main__":
    monkey.patch_all()

import sys
from typing import Any

from chaosflow.load.__main__ import main
from chaosflow.load.master import Master

_take = Master._on_cells
_lost: list[int] = []


def _lossy(self: Master, worker: Any, data: dict[str, Any]) -> None:
    if not _lost:
        _lost.append(data["seq"])
        return
    _take(self, worker, data)


Master._on_cells = _lossy  # type: ignore[method-assign]
sys.exit(main(*sys.argv[-2:]))
