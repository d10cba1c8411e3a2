"""The helper programs of the host and process faults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from chaosflow.linux import procs


def test_helper_programs_are_at_work_without_loading_the_scenario() -> None:
    """On a busy machine pydantic's import alone ate two of a crash loop's 2.5 seconds."""
    folder = Path(procs.__file__).parent.parent / "faults" / "_stress"
    names = sorted(path.stem for path in folder.glob("*.py") if "__main__" in path.read_text())
    code = f"import sys, importlib as i; [i.import_module('chaosflow.faults._stress.'+n) for n in {names!r}]"
    code += "; sys.exit('pydantic' in sys.modules)"
    assert "kill_again" in names
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
