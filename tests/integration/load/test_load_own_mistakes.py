"""What is wrong with the load itself is said in words: locustfiles, ports, pages, workers elsewhere, lost batches."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from load_orchestrator import LoadRun, order_for
from load_scripted_server import ScriptedServer

pytestmark = pytest.mark.slow

POISSON = {"kind": "poisson", "rate_per_s": 40}
CLOSED = {"kind": "closed", "users": 4}
RAISES = """
from locust import constant, task
from chaosflow.load import StreamingUser

class Chat(StreamingUser):
    wait_time = constant(0.1)

    def on_start(self):
        if START:
            raise NameError("oops")

    @task
    def ask(self):
        self.stream("hello", max_tokens=4)
        raise NameError("oops")
"""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as made:
        yield made


def ended_at_once(
    tmp_path: Path, plan: dict[str, Any]
) -> tuple[subprocess.CompletedProcess[bytes], list[Any]]:
    """A load that cannot begin: how its process ended, and what it told the orchestrator."""
    (tmp_path / "o.json").write_text(json.dumps(order_for(tmp_path, "http://127.0.0.1:9/v1", plan)))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        listener.setblocking(False)
        command = [sys.executable, "-m", "chaosflow.load", str(tmp_path / "o.json"), str(tmp_path / "s")]
        done = subprocess.run(command, capture_output=True, timeout=60)
        try:
            link, _ = listener.accept()
        except BlockingIOError:
            return done, []
        link.setblocking(True)
        with link, link.makefile("rb") as lines:
            return done, [json.loads(line) for line in lines]


def test_a_worker_that_cannot_take_its_order_says_why(tmp_path: Path) -> None:
    """ "ended with exit code 1" sends a person to the logs, and from another machine there are none."""
    (tmp_path / "bad.py").write_text("import no_such_module\n")
    plan = {"arrival": CLOSED, "locustfile": str(tmp_path / "bad.py"), "workers": 2}
    done, told = ended_at_once(tmp_path, plan)
    assert done.returncode == 1
    assert [m["type"] for m in told] == ["lost"] * 2
    assert all("bad.py: ModuleNotFoundError: No module named 'no_such_module'" in m["reason"] for m in told)


@pytest.mark.parametrize("field", ["web_ui_port", "listen"])
def test_a_port_that_is_taken_ends_the_load_in_words_before_it_began(tmp_path: Path, field: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        plan = {"arrival": POISSON, field: port if field == "web_ui_port" else f"127.0.0.1:{port}"}
        done, told = ended_at_once(tmp_path, plan)
    assert (done.returncode, told) == (1, [])
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use".encode() in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_task_that_raises_is_told_once_and_its_user_goes_on(tmp_path: Path, server: ScriptedServer) -> None:
    (tmp_path / "mine.py").write_text(RAISES.replace("START", "False"))
    plan = {"arrival": CLOSED, "locustfile": str(tmp_path / "mine.py")}
    with LoadRun(tmp_path, server.url("good"), plan) as run:
        run.start()
        run.run_for(1.5)
        assert run.stop() == 0
        assert run.total().resolved > 4
        notes = [m["text"] for m in run.of_kind("note") if "raised" in m["text"]]
        assert notes == ["load.locustfile: a user raised NameError: oops; the stack is in the load's log"]


def test_a_user_that_breaks_is_a_lost_worker_and_no_smaller_load(
    tmp_path: Path, server: ScriptedServer
) -> None:
    (tmp_path / "mine.py").write_text(RAISES.replace("START", "True"))
    plan = {"arrival": CLOSED, "locustfile": str(tmp_path / "mine.py")}
    with LoadRun(tmp_path, server.url("good"), plan) as run:
        run.start()
        assert "broke: NameError: oops" in run.wait_for("lost", 10)["reason"]
        run.wait_for("bye", 10)


def test_the_buttons_of_locusts_page_do_not_end_the_load(tmp_path: Path, server: ScriptedServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with LoadRun(tmp_path, server.url("good"), {"arrival": POISSON, "web_ui_port": port}) as run:
        run.start()
        run.run_for(0.5)
        for button, data in (("stop", b""), ("swarm", b"user_count=3&spawn_rate=3")):
            with pytest.raises(urllib.error.HTTPError, match="409") as refused:
                opener.open(f"http://127.0.0.1:{port}/{button}", data=data, timeout=10)
            with refused.value as answer:
                assert b"driven by chaosflow run" in answer.read()
        run.run_for(1.0)
        assert run.stop() == 0
        total = run.total()
        assert total.scheduled == total.resolved > 40
        assert run.of_kind("lost") == []


def test_a_batch_lost_on_the_way_is_sent_again_while_the_load_runs(
    tmp_path: Path, server: ScriptedServer
) -> None:
    """Else the master waits for it, and takes nothing more from that worker until the end of the run."""
    lossy = [sys.executable, str(Path(__file__).with_name("load_lossy_master.py"))]
    with LoadRun(tmp_path, server.url("good"), {"arrival": POISSON}, within=lossy) as run:
        run.start()
        run.run_for(4.5)
        assert len(run.batches) >= 2
        assert run.stop() == 0
        assert [b.seq for b in run.batches] == list(range(1, len(run.batches) + 1))
        total = run.total()
        assert total.scheduled == total.resolved > 100


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("HTTP", b"what listens there is no run's load; give the port of load.listen"),
        ("nosuch.invalid:5", b"no such host"),
        ("127.0.0.1:port", b"is no address; write HOST or HOST:PORT"),
    ],
)
def test_a_worker_with_a_wrong_master_says_so_at_once(
    tmp_path: Path, server: ScriptedServer, master: str, said: bytes
) -> None:
    master = f"127.0.0.1:{server.port}" if master == "HTTP" else master
    command = [sys.executable, "-m", "chaosflow.load.remote", "--master", master, "--records", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_worker_that_cannot_write_records_does_not_join(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "records")
    command = [sys.executable, "-m", "chaosflow.load.remote", "--master", "127.0.0.1", "--records", folder]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == 2
    assert b"Not a directory; name a folder that you may write to" in done.stderr


def test_a_worker_that_is_told_to_end_takes_its_share_of_the_load_with_it(
    tmp_path: Path, server: ScriptedServer
) -> None:
    """In good order, but the load is another one from there on: as lost as if it had been killed."""
    with LoadRun(tmp_path, server.url("good"), {"arrival": CLOSED, "workers": 2}) as run:
        run.start()
        run.run_for(0.5)
        run.workers[0].terminate()
        lost = run.wait_for("lost", 10)
        assert (lost["worker"], lost["reason"]) == ("0", "ended before the load did (SIGTERM?)")
        run.run_for(0.5)
        assert run.stop() == 0
        assert len(run.of_kind("lost")) == 1


WHOLE = """\
version: 1
name: page
target: {engine: {backend: sim}}
load: {arrival: {kind: poisson, rate_per_s: 20}, prompt_tokens: 8, output_tokens: 4, web_ui_port: PORT}
phases: {warmup: 1s, baseline: 3s, recovery: 1s}
sla: {objectives: [error_rate <= 50%]}
"""


def test_the_page_of_a_run_on_the_included_engine_can_be_reached(tmp_path: Path) -> None:
    """As root the engine, and with it the load, would else live in a namespace that no browser is in."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    (tmp_path / "s.yaml").write_text(WHOLE.replace("PORT", str(port)))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    command = [sys.executable, "-m", "chaosflow", "run", "s.yaml", "--plain"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as run:
        page = b""
        while not page and run.poll() is None:
            with suppress(OSError), opener.open(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                page = answer.read()
            time.sleep(0.05)
        run.wait(60)
    assert b"Locust" in page


UNIX = """\
version: 1
name: unix
target: {url: "http://localhost:9/good/v1", model: tiny}
load: {arrival: {kind: poisson, rate_per_s: 20}, prompt_tokens: 8, output_tokens: 4, unix_socket: SOCKET}
phases: {warmup: 1s, baseline: 3s, recovery: 1s}
sla: {objectives: [error_rate <= 50%]}
"""


def test_a_target_that_listens_on_a_unix_socket_alone_is_found_there(tmp_path: Path) -> None:
    """Nobody listens at its address: the health check has to go where the load goes."""
    folder = Path(tempfile.mkdtemp())
    (tmp_path / "s.yaml").write_text(UNIX.replace("SOCKET", str(folder / "s")))
    command = [sys.executable, "-m", "chaosflow", "run", "s.yaml", "--plain"]
    try:
        with ScriptedServer(unix=str(folder / "s")) as server:
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=90)
            assert server.served > 40
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stdout
