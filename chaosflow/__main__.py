"""The command's first lines: what must be in order before the imports, which take a moment, have begun."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Entry point of ``chaosflow`` and ``python -m chaosflow``."""
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    _open_streams()
    from chaosflow.cli import app

    app.main()


def _open_streams() -> None:
    """A closed standard stream becomes /dev/null: else the next file or socket would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  (until the process ends)


if __name__ == "__main__":
    main()
