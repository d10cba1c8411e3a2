"""llama.cpp's own C++ HTTP server, out of the wheel ``xllamacpp``, on loopback until SIGINT or SIGTERM.

python tests/targets/llamacpp_server.py MODEL.gguf PORT [SLOTS]
"""

from __future__ import annotations

import signal
import sys

import xllamacpp

_CONTEXT_PER_SLOT = 1024


def parameters(model: str, port: int, slots: int) -> xllamacpp.CommonParams:
    """One decoding thread: there are other things to do on a small machine."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"tiny"}
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_parallel, params.n_ctx, params.cont_batching = slots, _CONTEXT_PER_SLOT * slots, True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_threads_http = slots + 4  # one is taken by every stream
    params.n_gpu_layers, params.warmup = 0, False
    params.endpoint_metrics, params.ui, params.use_jinja = True, False, True
    return params


def main(model: str, port: str, slots: str = "16") -> None:
    """Serve until told to stop. Does not answer an orderly end to streams still open."""
    stops = (signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # for the server's threads too: only sigwait sees them
    server = xllamacpp.Server(parameters(model, int(port), int(slots)))
    sys.stdout.write(f"listening {server.listening_address}\n")
    sys.stdout.flush()
    signal.sigwait(stops)


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 4:
        sys.exit("usage: llamacpp_server.py MODEL.gguf PORT [SLOTS]")
    main(*sys.argv[1:])
