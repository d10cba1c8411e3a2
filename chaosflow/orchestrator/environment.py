"""The fingerprint of the machine a run was made on: two runs compare only where these agree."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

import chaosflow
from chaosflow.linux import cgroup

_PACKAGES = ("locust", "gevent", "uvicorn", "numpy")


def fingerprint() -> dict[str, str]:
    """Name -> value, in words. Reads only; never raises for a missing piece."""
    found = {
        "chaosflow": chaosflow.__version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
        "root": "yes" if os.geteuid() == 0 else "no",
        "cgroups": {0: "none", 1: "v1", 2: "v2"}[cgroup.layout().cpu_version()],
        "clocksource": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "tcp congestion control": _read("/proc/sys/net/ipv4/tcp_congestion_control"),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    if head := _git_head():
        found["git"] = head
    return {name: value for name, value in found.items() if value}


def _cpu_model() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _git_head() -> str:
    """Commit of the user's own repository in the current folder, with ``+`` when it has changes."""
    if not shutil.which("git"):
        return ""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            capture_output=True, text=True, timeout=2, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return described.stdout.strip() if described.returncode == 0 else ""
