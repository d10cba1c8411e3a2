"""The ways to name a target's processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaosflow.core.errors import CapabilityError
from chaosflow.core.host import ProcessRef
from chaosflow.core.scenario import ProcessSpec
from chaosflow.linux import finding, procs

_WITH_US = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
"""For a Python that is started by another name: it does not find its virtual environment."""
LISTEN = """
import os, socket, sys, time
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
if os.fork() == 0: time.sleep(1000)
print(s.getsockname()[1], flush=True)
time.sleep(1000)
"""


@pytest.fixture
def listener() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that listens, with a forked child that holds the same socket."""
    process = subprocess.Popen(
        [sys.executable, "-c", LISTEN, "0"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout
    try:
        yield process, int(process.stdout.readline())
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_a_listening_port_leads_to_the_root_of_the_tree(listener: tuple[subprocess.Popen[str], int]) -> None:
    process, port = listener
    refs, how = finding.find(ProcessSpec(listen_port=port))
    assert [ref.pid for ref in refs] == [process.pid]
    assert how == f"listen_port {port}"
    assert len(procs.tree(refs)) == 2


def test_a_port_where_nobody_listens_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    with pytest.raises(CapabilityError, match=f"listen_port {port}: nobody listens there"):
        finding.by_listen_port(port)


@pytest.fixture
def named(tmp_path: Path) -> Iterator[str]:
    """A name that one program of this machine has, which has a child of the same name."""
    name = f"serve-{os.getpid()}"
    program = tmp_path / name
    program.symlink_to(sys.executable)
    code = "import os, sys, time; pid = os.fork(); pid and print(flush=True); time.sleep(1000)"
    with subprocess.Popen([program, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield name
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_name_leads_to_the_root_of_the_one_tree_that_has_it(named: str) -> None:
    refs, how = finding.find(ProcessSpec(name=named))
    assert how == f"name {named}"
    assert len(refs) == 1
    assert len(procs.tree(refs)) == 2
    assert refs[0] == ProcessRef.of(refs[0].pid), "held by pid and start time"


def test_a_name_that_nobody_or_that_two_have_is_refused(named: str, tmp_path: Path) -> None:
    with pytest.raises(CapabilityError, match="name no-such-server: no process is called so"):
        finding.by_name("no-such-server")
    with subprocess.Popen([tmp_path / named, "-c", "import time; time.sleep(1000)"]) as another:
        try:
            with pytest.raises(
                CapabilityError, match=rf"2 processes are called so: .*{another.pid} \(started 20"
            ):
                finding.by_name(named)
        finally:
            another.kill()


def test_a_name_never_means_ourselves(tmp_path: Path) -> None:
    program = tmp_path / f"chaos-{os.getpid()}"
    program.symlink_to(sys.executable)
    code = f"from chaosflow.linux import finding; finding.by_name({program.name!r})"
    done = subprocess.run([program, "-c", code], capture_output=True, text=True, env=_WITH_US, timeout=60)
    assert f"name {program.name}: no process is called so" in done.stderr


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes a network namespace")
def test_a_port_in_another_network_namespace_is_found() -> None:
    script = "import subprocess; subprocess.run(['ip', 'link', 'set', 'lo', 'up'])\n" + LISTEN
    process = subprocess.Popen(
        ["unshare", "--net", sys.executable, "-c", script, "18099"],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout
    try:
        assert process.stdout.readline().strip() == "18099"
        assert [ref.pid for ref in finding.by_listen_port(18099)] == [process.pid]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_pid_files(tmp_path: Path) -> None:
    file = tmp_path / "server.pid"
    with pytest.raises(CapabilityError, match="cannot be read"):
        finding.by_pid_file(str(file))
    file.write_text("none\n")
    with pytest.raises(CapabilityError, match="holds no pid"):
        finding.by_pid_file(str(file))
    process = subprocess.Popen(["sleep", "1000"])
    try:
        file.write_text(f"{process.pid}\n")
        assert finding.by_pid_file(str(file)) == (ProcessRef.of(process.pid),)
        os.utime(file, (time.time() - 3600, time.time() - 3600))
        with pytest.raises(CapabilityError, match="is stale"):
            finding.by_pid_file(str(file))
    finally:
        process.kill()
        process.wait()
    with pytest.raises(CapabilityError, match="no such process"):
        finding.by_pid(process.pid)


def test_a_containers_name_is_searched_in_cgroup_paths() -> None:
    with pytest.raises(CapabilityError, match="no process has it as a part of its cgroup path"):
        finding.by_container("no-such-container-0123456789")


@pytest.mark.parametrize(
    ("part", "name", "matches"),
    [
        ("web-1", "web-1", True),
        ("web-1.scope", "web-1", True),
        ("web-1-backup", "web-1", False),
        ("docker-" + "a1b2c3d4e5f6" * 5 + ".scope", "a1b2c3d4e5f6", True),
        ("docker-" + "a1b2c3d4e5f6" * 5 + ".scope", "a1b2c3", False),
        ("a1b2c3d4e5f6" * 5, "a1b2c3d4e5f6", True),
        ("cpu", "cpu", True),
        ("", "", False),
    ],
)
def test_a_container_is_a_whole_part_of_the_path(part: str, name: str, matches: bool) -> None:
    """A name that another contains stopped a stranger's processes."""
    assert finding._names_container(part, name) is matches


def test_a_pid_file_that_never_ends_is_not_read_to_its_end() -> None:
    with pytest.raises(CapabilityError, match="holds no pid"):
        finding.by_pid_file("/dev/zero")
