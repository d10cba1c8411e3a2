"""The product's own reports."""


def headline(answers: int) -> str:
    return f"{answers} answers"
