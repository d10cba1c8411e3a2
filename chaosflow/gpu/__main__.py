"""``python -m chaosflow.gpu STATE``: look at a virtual GPU, let go of its lock, or run a program on it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from chaosflow.core.errors import ChaosflowError, UsageError
from chaosflow.gpu.hook import environment_for
from chaosflow.gpu.nvml import open_nvml
from chaosflow.gpu.specs import gpu_named
from chaosflow.gpu.state import VirtualGpuState


def main(argv: list[str] | None = None) -> int:
    """The exit code; with a command it does not return, the command takes this process over."""
    parser = argparse.ArgumentParser(
        prog="chaosflow vgpu",
        usage="%(prog)s STATE [--gpu GPU] [--reset-clock] [-- COMMAND ...]",
        description="One virtual GPU; with a command, run that Python tool so that it sees this GPU.",
    )
    parser.add_argument("state", type=Path, help="state file, as given to the engine by --vgpu-state")
    parser.add_argument("--gpu", help="make the state first, if there is none, as this named GPU")
    parser.add_argument("--reset-clock", action="store_true", help="remove the lock of its SM clock")
    words = sys.argv[1:] if argv is None else argv
    split = words.index("--") if "--" in words else len(words)
    options, command = parser.parse_args(words[:split]), words[split + 1 :]
    try:
        if options.gpu is not None:
            VirtualGpuState.create(options.state, gpu_named(options.gpu)).close()
        line = _look(options.state, reset_clock=options.reset_clock)
        if command:
            return _run(options.state, command)
        sys.stdout.write(line)
    except ChaosflowError as e:
        sys.stderr.write(f"{e}\n")
        return int(e.exit_code)
    return 0


def _look(state: Path, *, reset_clock: bool) -> str:
    with open_nvml(state) as nvml:
        device = nvml.device(0)
        if reset_clock:
            device.reset_sm_clock()
        return (
            f"{device.name()}: SM {device.sm_clock_mhz()} MHz, {device.power_w():.0f} W, "
            f"{device.utilization_percent()} % busy\n"
        )


def _run(state: Path, command: list[str]) -> int:
    try:
        os.execvpe(command[0], command, environment_for(state, os.environ))
    except OSError as e:
        raise UsageError(command[0], f"cannot be run ({e.strerror})", "") from e


if __name__ == "__main__":
    sys.exit(main())
