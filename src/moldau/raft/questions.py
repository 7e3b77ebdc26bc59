"""● The open requests of other replicas and tools to the consensus machine.  Each waits for its answer, or for the end."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from moldau.errors import KafkaError
from moldau.protocol.wire import Response
from moldau.raft.voter_wire import VoterRequest
from moldau.raft.wire import ReplicaRequest

Asked: TypeAlias = ReplicaRequest | VoterRequest


class Question(NamedTuple):
    """A request, its version, and its waiting caller."""

    request: Asked
    version: int
    answered: "asyncio.Future[Response]"


class Questions:
    """See the module."""

    def __init__(self) -> None:
        self._tokens = 0
        self._waiting: dict[int, Question] = {}

    async def ask(self, request: Asked, version: int, step: Callable[[int], object]) -> Response:
        """Ask.  `step` gives the machine the token with which the answer will come.  Errors: those of `refuse_all`."""
        self._tokens += 1
        token = self._tokens
        question = self._waiting[token] = Question(request, version, asyncio.get_running_loop().create_future())
        try:
            step(token)
            return await question.answered
        finally:
            self._waiting.pop(token, None)

    def answered(self, token: int) -> Question | None:
        """The question that was answered; None if its caller no longer waits."""
        question = self._waiting.pop(token, None)
        return None if question is None or question.answered.done() else question

    def refuse_all(self, error: KafkaError) -> None:
        for question in self._waiting.values():
            if not question.answered.done():
                question.answered.set_exception(error)
