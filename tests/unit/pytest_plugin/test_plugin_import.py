"""Every pytest on a machine where ChaosFlow is installed imports the plugin: that must cost next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """\
import sys
import pytest, _pytest.terminal, _pytest.junitxml, _pytest.logging
before = set(sys.modules)
import chaosflow.pytest_plugin
new = set(sys.modules) - before
print(sorted(m for m in new if not m.startswith("chaosflow.pytest_plugin")))
"""


@pytest.mark.slow
def test_the_plugin_imports_nothing_but_itself() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['chaosflow']"
