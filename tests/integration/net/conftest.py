"""The rig's folder is importable from the guest's tests and the contract's too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
