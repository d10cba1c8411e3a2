"""The rigs of the process tests and of the contract tests are used here, too."""

import sys
from pathlib import Path

_HERE = Path(__file__).parent
for folder in (_HERE.parent / "faults", _HERE.parent / "net", _HERE.parents[1] / "contract"):
    sys.path.insert(0, str(folder))
