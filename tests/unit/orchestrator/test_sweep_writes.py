"""A sweep whose own files cannot be written goes on, and says so at its end."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

from chaosflow.core.errors import ExitCode
from chaosflow.core.sweepresult import PointResult
from chaosflow.orchestrator.sweep import Sweep
from chaosflow.orchestrator.sweep_plan import plan_sweep
from chaosflow.views import PatientConsole, PlainView


def test_page_that_cannot_be_written_costs_no_point_and_no_code(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    plan = plan_sweep("quickstart", ["seed=1,2"])
    view = PlainView(PatientConsole())
    sweep = Sweep(plan, blocked, [], lambda prepared, values: nullcontext(view), lambda point: None)
    sweep.result.points.append(
        PointResult(values={"seed": "1"}, state="error", exit_code=5, reason="x", runs=[""])
    )
    sweep._write()
    assert "Not a directory" in sweep.trouble
    assert sweep.result.exit_code == 5


def test_command_that_undoes_by_hand_is_kept_and_ends_the_sweep(tmp_path: Path) -> None:
    """docs/sweep.md: code 5, "run the printed command"; it must be there to be printed."""
    view = PlainView(PatientConsole())
    plan = plan_sweep("quickstart", ["seed=1,2"])
    sweep = Sweep(plan, tmp_path, [], lambda prepared, values: nullcontext(view), lambda point: None)
    result = SimpleNamespace(simulated=[])
    ended = SimpleNamespace(
        result=result, exit_code=ExitCode.NOT_UNDONE, not_undone=["kill -CONT 1"], trouble=""
    )
    sweep._note_end(ended)  # type: ignore[arg-type]
    assert sweep.not_undone == ["kill -CONT 1"]
    assert sweep._stopped()
