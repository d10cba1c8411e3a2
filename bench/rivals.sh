#!/usr/bin/env bash
# The rival AIPerf against the truth server, beside ChaosFlow, in one run. It needs some 300 packages, so it gets an
# environment of its own (build/rivals, made once) and no part in the project's.
# inference-perf can be added the same way on Python 3.12; GuideLLM and genai-bench too.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/rivals
if [ ! -x "$venv/bin/aiperf" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" --quiet --disable-pip-version-check install aiperf
fi
exec .venv/bin/python bench/rivals.py "$venv/bin/aiperf" "$@"
