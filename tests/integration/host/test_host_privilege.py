"""Limits of a process that belongs to somebody else: said beforehand, and no success afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from host_rig import host_for
from process_rig import wait_for

from chaosflow.core.host import ProcessRef
from chaosflow.faults.host_fd_exhaust import HostFdExhaust

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a process of another user"),
]
ASK = """
import asyncio, json, sys
from chaosflow.core.fault import Undo
from chaosflow.core.host import Host, ProcessRef, TargetHandle
from chaosflow.faults.host_fd_exhaust import HostFdExhaust
ref = ProcessRef.from_json(json.loads(sys.argv[1]))
host = Host("t", TargetHandle(False, "http://127.0.0.1:9/v1", processes=(ref,), selector="pid"))
print(HostFdExhaust().check(host).reason)
state = {"roots": [ref.to_json()], "scope": "pid", "processes": [{"ref": ref.to_json(), "soft": 9, "limit": 3}]}
asyncio.run(HostFdExhaust.revert(Undo(kind="host.fd_exhaust", name="n", run_id="t", state=state)))
"""


@pytest.fixture
def theirs() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], user=65534) as process:
        try:
            wait_for(lambda: os.stat(f"/proc/{process.pid}").st_uid == 65534, "a process of another user")
            yield process
        finally:
            process.kill()


def test_a_limit_that_may_not_be_touched_is_refused_and_its_revert_is_no_success(
    theirs: subprocess.Popen[bytes],
) -> None:
    ref = ProcessRef.of(theirs.pid)
    assert ref
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", ASK]
    done = subprocess.run([*command, json.dumps(ref.to_json())], capture_output=True, text=True, timeout=60)
    assert "sleep" in done.stdout, done.stderr
    assert done.returncode == 1
    assert "may be neither read nor set; run as its user" in done.stderr


def test_what_this_process_may_do_is_not_refused() -> None:
    with subprocess.Popen(["sleep", "1000"]) as ours:
        try:
            assert HostFdExhaust().check(host_for(ours)).ok
        finally:
            ours.kill()
