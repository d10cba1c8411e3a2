"""The product's own engine: a name that ChaosFlow uses too, and must leave alone."""


def prompt_for(question: str) -> dict[str, object]:
    """The body of a chat request."""
    return {"messages": [{"role": "user", "content": question}], "max_tokens": 8, "stream": True}
