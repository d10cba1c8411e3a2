"""``python -m chaosflow.gpu STATE``: look at a virtual GPU, or let go of its locked clock."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from chaosflow.core.errors import ChaosflowError
from chaosflow.gpu.nvml import open_nvml


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m chaosflow.gpu", description="One virtual GPU.")
    parser.add_argument("state", type=Path, help="state file, as given to the engine by --vgpu-state")
    parser.add_argument("--reset-clock", action="store_true", help="remove the lock of its SM clock")
    options = parser.parse_args(argv)
    try:
        with open_nvml(options.state) as nvml:
            device = nvml.device(0)
            if options.reset_clock:
                device.reset_sm_clock()
            sys.stdout.write(
                f"{device.name()}: SM {device.sm_clock_mhz()} MHz, {device.power_w():.0f} W, "
                f"{device.utilization_percent()} % busy\n"
            )
    except ChaosflowError as e:
        sys.stderr.write(f"{e}\n")
        return int(e.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
