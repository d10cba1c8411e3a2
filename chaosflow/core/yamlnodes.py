"""Composing YAML nodes that remember the tag written at them."""

from __future__ import annotations

from typing import Any

import yaml


class TaggedLoader(yaml.SafeLoader):
    """Composes nodes and marks those whose text names a tag: a node's ``tag`` alone does not tell.

    Constructs nothing.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        tag = getattr(event, "tag", None)  # an alias has none
        node = super().compose_node(parent, index)
        if tag is not None and node is not None:
            vars(node)["written_tag"] = tag
        return node


def written_tag(node: yaml.Node) -> str:
    """The tag that stands in the text, ``!!int``; empty where there is none."""
    return str(vars(node).get("written_tag", ""))
