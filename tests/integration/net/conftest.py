"""The rig's folder is importable from the guest's tests and the contract's too; the fuzz test uses theirs."""

import sys
from pathlib import Path

_HERE = Path(__file__).parent
for folder in (_HERE.parents[1] / "contract", _HERE.parent / "faults", _HERE.parent / "host", _HERE):
    sys.path.insert(0, str(folder))
