"""Locust's own web page, for looking at: whoever presses its buttons would end the load and not the run."""

from __future__ import annotations

from typing import Any

from flask import jsonify, request

HOST = "127.0.0.1"
_BUTTONS = ("/swarm", "/stop")


def show_page(environment: Any, port: int) -> None:
    """Serve it on this machine. Start, edit and stop are refused, with a word on who drives the load."""
    page = environment.create_web_ui(HOST, port)

    def refuse() -> Any:
        if not request.path.endswith(_BUTTONS):
            return None
        message = "this load is driven by chaosflow run: end it there, with Ctrl-C"
        return jsonify({"success": False, "message": message}), 409

    page.app.before_request(refuse)
