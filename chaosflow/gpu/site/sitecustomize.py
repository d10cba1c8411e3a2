"""Found first on PYTHONPATH by the programs that ``chaosflow vgpu -- CMD`` starts; see gpu/hook.py."""

import importlib
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
_this = sys.modules.pop("sitecustomize")
try:
    importlib.import_module("sitecustomize")  # the interpreter's own, which this one has hidden
except ModuleNotFoundError:
    sys.modules["sitecustomize"] = _this
try:
    from chaosflow.gpu.hook import activate_from_environment
except ImportError as e:
    sys.stderr.write(f"chaosflow vgpu: off, this Python has no ChaosFlow ({e})\n")
else:
    activate_from_environment()
