"""Standard streams that are full or closed: told in words, or nobody's business."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def shell(line: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", line, "sh", sys.executable, "-m", "chaosflow"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_data_that_finds_no_room_is_an_error_in_words() -> None:
    done = shell('exec "$@" schema > /dev/full')
    assert done.returncode == 6
    assert "No space left on device" in done.stderr
    assert "mistake of ours" not in done.stderr


@pytest.mark.parametrize(("words", "code"), [("schema", 0), ("list faults", 0), ("rnu", 2)])
def test_closed_streams(words: str, code: int) -> None:
    done = shell(f'exec "$@" {words} <&- >&- 2>&-')
    assert done.returncode == code
