"""The words of declarations: what a declared class is, and what it will not do."""

import copy

import pytest

from moldau.protocol.declared import version_range
from moldau.protocol.wire import Request, Response, array, blank, int32, message, nested, string, struct


@struct
class Endpoint:
    host: str = string(default="")
    port: int = int32(default=-1)


@message(api_key=900, versions="0-2", flexible="1+")
class ExampleRequest(Request["ExampleResponse"]):
    """An example."""

    name: str = string()
    leader: Endpoint = nested(Endpoint, "1+", tag=0, default=Endpoint())
    others: list[Endpoint] = array(Endpoint, "2+", default=[])


@message(response_to=ExampleRequest)
class ExampleResponse(Response):
    code: int = int32()


@pytest.mark.parametrize(
    ("text", "range_"), [("3", range(3, 4)), ("3-5", range(3, 6)), ("3+", range(3, 0x8000)), ("0+", range(0x8000)), ("none", range(0))]
)
def test_version_ranges(text: str, range_: range) -> None:
    assert version_range(text) == range_


def test_a_field_without_default_must_be_given() -> None:
    with pytest.raises(TypeError, match="name"):
        ExampleRequest()  # type: ignore[call-arg]


def test_a_field_that_is_not_declared_is_refused() -> None:
    with pytest.raises(TypeError, match="nmae"):
        ExampleRequest(nmae="x")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        ExampleRequest(name="x").nmae = "y"  # type: ignore[attr-defined]


def test_a_default_list_is_fresh_each_time() -> None:
    one, other = ExampleRequest(name="a"), ExampleRequest(name="b")
    one.others.append(Endpoint(host="h"))
    assert other.others == []


def test_a_default_struct_is_shared_and_cannot_be_changed() -> None:
    one = ExampleRequest(name="a")
    assert one.leader == Endpoint()
    with pytest.raises(AttributeError, match="make a new one to set port"):
        one.leader.port = 9092
    one.leader = Endpoint(port=9092)
    assert ExampleRequest(name="b").leader.port == -1


def test_equality_is_by_fields_and_unknown_tags() -> None:
    assert ExampleRequest(name="a") == ExampleRequest(name="a")
    assert ExampleRequest(name="a") != ExampleRequest(name="b")
    assert ExampleRequest(name="a") != "a"
    assert ExampleRequest(name="a", unknown_tagged_fields={5: b"x"}) != ExampleRequest(name="a")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unhashable"):
        hash(ExampleRequest(name="a"))


def test_a_copy_is_equal_and_independent() -> None:
    one = ExampleRequest(name="a", others=[Endpoint(host="h")])
    other = copy.deepcopy(one)
    assert other == one
    other.others[0].host = "changed"
    assert one.others[0].host == "h"
    assert copy.copy(one) == one


def test_repr_shows_what_is_not_default() -> None:
    assert repr(ExampleRequest(name="a", others=[Endpoint(port=1)])) == "ExampleRequest(name='a', others=[Endpoint(port=1)])"


def test_a_response_has_the_versions_of_its_request() -> None:
    assert ExampleRequest.RESPONSE is ExampleResponse
    assert ExampleResponse.REQUEST is ExampleRequest
    assert range(3) == ExampleResponse.VERSIONS
    assert version_range("1+") == ExampleResponse.FLEXIBLE


def test_blank_fills_what_is_required() -> None:
    assert blank(ExampleRequest) == ExampleRequest(name="")
    assert blank(ExampleResponse) == ExampleResponse(code=0)
