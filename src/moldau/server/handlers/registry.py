"""◇ `@handles(XRequest)`: which function answers which request.

`handlers/__init__.py` names the modules; `apis_of` imports them and says what a listener serves.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from types import ModuleType
from typing import Any, Final, TypeVar

from moldau.protocol.wire import Request
from moldau.server.dispatch import Api

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])

_MARK: Final = "__handles__"


def handles(*requests: type[Request[Any]]) -> Callable[[HandlerT], HandlerT]:
    """Says that a function answers these requests."""

    def mark(handler: HandlerT) -> HandlerT:
        setattr(handler, _MARK, requests)
        return handler

    return mark


def apis_of(modules: Iterable[str], listener: str) -> dict[int, Api]:
    """What the handlers in `modules` serve on a "broker" or a "controller" listener, by api key."""
    apis: dict[int, Api] = {}
    for name in modules:
        for handler, request in _handlers_in(import_module(name)):
            if listener in request.LISTENERS:
                assert request.API_KEY not in apis, f"{request.__name__} has two handlers"
                apis[request.API_KEY] = Api(request, handler)
    return dict(sorted(apis.items()))


def _handlers_in(module: ModuleType) -> Iterable[tuple[Callable[..., Any], type[Request[Any]]]]:
    for value in vars(module).values():
        for request in getattr(value, _MARK, ()):
            if value.__module__ == module.__name__:
                yield value, request
