"""``python -m chaosflow.engine``: the included streaming engine, a program of its own."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from chaosflow.core.errors import ChaosflowError
from chaosflow.engine.infer.models import MODELS
from chaosflow.engine.server import ServeOptions, serve
from chaosflow.gpu.specs import GPUS


def main(argv: list[str] | None = None) -> int:
    """Serve, or list what can be served; the exit code. One line on stdout says where it listens."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.list:
        sys.stdout.write(_listing())
        return 0
    del options.list
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        return serve(ServeOptions(**vars(options)))
    except ChaosflowError as e:
        sys.stderr.write(f"chaosflow engine: {e}\n")
        return int(e.exit_code)


def _parser() -> argparse.ArgumentParser:
    defaults = ServeOptions()
    parser = argparse.ArgumentParser(
        prog="chaosflow serve", description="OpenAI-compatible streaming engine on a virtual GPU."
    )
    add = parser.add_argument
    add("--backend", choices=["sim"], default=defaults.backend, help="sim: roofline-timed, says random words")
    add("--gpu", default=defaults.gpu, help="named GPU of the roofline (see --list)")
    add("--model", default=defaults.model, help="named model size of the roofline (see --list)")
    add("--served-model-name", default="", metavar="NAME", help="name in the API; default: --model")
    add("--host", default=defaults.host)
    add("--port", type=_port, default=defaults.port, help="0 = any free port")
    add("--max-batch", type=_positive, default=defaults.max_batch, help="sequences decoded together")
    add("--seed", type=int, default=defaults.seed, help="of the words")
    add("--vgpu-state", type=Path, metavar="FILE", help="share the virtual GPU through this file")
    add("--control-socket", type=Path, metavar="SOCKET", help="serve on this Unix socket too")
    add("--list", action="store_true", help="show GPUs and models, and exit")
    return parser


def _port(text: str) -> int:
    if not 0 <= (port := int(text)) <= 65535:
        raise argparse.ArgumentTypeError("must be from 0 to 65535")
    return port


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _listing() -> str:
    lines = ["GPUs (* = figure not verified)"]
    for gpu in GPUS.values():
        mark = "*" if "boost_mhz" in gpu.unverified else ""
        lines.append(
            f"  {gpu.key:<10} {gpu.sms} SMs, {gpu.boost_mhz}{mark} MHz, {gpu.hbm_bytes_per_s / 1e12:g} TB/s, "
            f"{gpu.bf16_flops / 1e12:g} TFLOP/s bf16, {gpu.memory_bytes >> 30} GiB, {gpu.tdp_w} W"
        )
    lines.append("models (bf16)")
    for model in MODELS.values():
        lines.append(
            f"  {model.key:<14} {model.weight_bytes / 1e9:.1f} GB of weights, "
            f"{model.kv_bytes_per_token / 1024:.0f} KiB of KV per token, context {model.context_tokens}"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
