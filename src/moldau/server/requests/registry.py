"""◇ `@handles(XRequest)`: marks the function that answers a request.  `handlers/__init__.py` names the modules; `apis_of` imports them and
lists the APIs of a listener.
"""

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final, TypeVar

from moldau.protocol.wire import Request
from moldau.server.requests.dispatch import Api

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])

_MARK: Final = "__handles__"


def handles(*requests: type[Request[Any]], listeners: tuple[str, ...] = ()) -> Callable[[HandlerT], HandlerT]:
    """Mark a function that answers these requests; only on `listeners`, if they are named."""

    def mark(handler: HandlerT) -> HandlerT:
        setattr(handler, _MARK, [(request, listeners) for request in requests])
        return handler

    return mark


def apis_of(modules: Iterable[str], listener: str) -> dict[int, Api]:
    """The APIs that handlers in `modules` serve on a "broker" or a "controller" listener, by api key."""
    apis: dict[int, Api] = {}
    for name in modules:
        for api in _apis_in(import_module(name)):
            if listener in (api.listeners or api.request.LISTENERS):
                assert api.request.API_KEY not in apis, f"{api.request.__name__} has two handlers"
                apis[api.request.API_KEY] = api
    return dict(sorted(apis.items()))


@cache
def _apis_in(module: ModuleType) -> tuple[Api, ...]:
    """The marked functions of a module, with its documentation; or the rows of its table `APIS`."""
    found: list[Api] = [*getattr(module, "APIS", ())]
    documentation = (module.__doc__ or "").partition(":")[2].strip()
    for value in vars(module).values():
        for request, listeners in getattr(value, _MARK, ()):
            if value.__module__ == module.__name__:
                found.append(Api(request, value, documentation, listeners))
    return tuple(found)
