"""The command's first lines: Ctrl-C is answered before the imports, which take a moment, have begun."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Entry point of ``chaosflow`` and ``python -m chaosflow``."""
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    from chaosflow.cli import app

    app.main()


if __name__ == "__main__":
    main()
