"""How an evaluation ends early. Alone in its module, because whoever may filter imports it."""


class EvaluationFailed(Exception):  # noqa: N818 - never leaves this package
    """The broker throws at this point of an evaluation; the message is then not accepted."""
