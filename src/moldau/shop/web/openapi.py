"""◇ The answers of the shop, as an OpenAPI 3.1 document."""

from typing import Any, Final

from moldau.pipelines.validation.model import Reason as OrderReason
from moldau.pipelines.validation.model import State
from moldau.shop.burgers.promotion import MOST_A_CLAIM, Reason
from moldau.shop.burgers.promotion import State as ClaimState
from moldau.shop.orders.requests import MOST_LINES, MOST_WAIT_S
from moldau.shop.web.keys import HEADER, MOST_CHARACTERS
from moldau.shop.web.problems import MEDIA_TYPE
from moldau.version import __version__

ORDER: Final = {
    "customer_id": "42",
    "store_id": "367",
    "lines": [{"product_id": 1029743, "quantity": 2, "cents": 598}],
    "total_cents": 598,
}


def document() -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The shop",
            "version": __version__,
            "description": "Orders are taken at once and judged on Spark; burgers are answered at once. Errors are problem+json (RFC 9457) "
            "and name the field. Repeat a request with its Idempotency-Key as often as you like: it is done once.",
        },
        "paths": {
            "/orders": {"post": _place(), "get": _search()},
            "/orders/{order_id}": {"get": _order()},
            "/burgers": {"post": _claim()},
            "/burgers/{claim_id}": {"get": _one_claim("A claim", "get")},
            "/burgers/{claim_id}/payment": {"post": _one_claim("Pay for a claim; no card is charged here", "pay")},
            "/events": {
                "get": {
                    "summary": "What happens, as server-sent events",
                    "responses": {"200": {"description": "A frame of figures at a time.", "content": {"text/event-stream": {}}}},
                }
            },
        },
        "components": {"schemas": _schemas()},
    }


def _place() -> dict[str, Any]:
    return {
        "summary": "Place an order",
        "description": "It is on stable storage when the answer comes. Its verdict follows: ask for it at the link.",
        "parameters": [_key()],
        "requestBody": _body("OrderRequest", ORDER),
        "responses": {
            "202": {
                "description": "Taken, now or by an earlier request with this key (then Idempotent-Replayed is true).",
                "headers": {"Location": _header("The order."), "Idempotent-Replayed": _header("true or false")},
                "content": {"application/json": {"schema": _ref("Placed")}},
            },
            **_problems("400", "403", "408", "413", "415", "422", "503"),
        },
    }


def _search() -> dict[str, Any]:
    return {
        "summary": "Find orders by words: a state, a reason, customer:42, store:367",
        "parameters": [{"name": "q", "in": "query", "required": True, "schema": {"type": "string", "minLength": 1, "maxLength": 200}}],
        "responses": {"200": {"description": "The newest hundred that hold all words."}, **_problems("400", "503")},
    }


def _order() -> dict[str, Any]:
    seconds = {"type": "number", "minimum": 0, "maximum": MOST_WAIT_S, "default": 0}
    return {
        "summary": "An order, at once or when it is judged",
        "parameters": [
            _path("order_id"),
            {"name": "wait", "in": "query", "schema": seconds, "description": "Seconds to wait for the verdict."},
        ],
        "responses": {
            "200": {"description": "The order as it is.", "content": {"application/json": {"schema": _ref("Order")}}},
            **_problems("400", "404", "503"),
        },
    }


def _claim() -> dict[str, Any]:
    return {
        "summary": "Claim burgers of the promotion",
        "parameters": [_key()],
        "requestBody": _body("ClaimRequest", {"customer_id": "42", "quantity": 2}),
        "responses": {
            "201": {"description": "Yours, if paid in time.", "content": {"application/json": {"schema": _ref("Claim")}}},
            "409": {"description": "Refused, with the reason.", "content": {"application/json": {"schema": _ref("Refused")}}},
            **_problems("400", "403", "408", "413", "415", "422", "503"),
        },
    }


def _one_claim(summary: str, kind: str) -> dict[str, Any]:
    gone = _problems("403", "404", "410", "503") if kind == "pay" else _problems("404", "503")
    content = {"application/json": {"schema": _ref("Claim")}}
    return {
        "summary": summary,
        "parameters": [_path("claim_id")],
        "responses": {"200": {"description": "As it is.", "content": content}, **gone},
    }


def _schemas() -> dict[str, Any]:
    text, number = {"type": "string"}, {"type": "integer"}
    line = _object({"product_id": {**number, "minimum": 1}, "quantity": number, "cents": {**number, "description": "For the whole line."}})
    asked = {
        "customer_id": {**text, "maxLength": 200},
        "store_id": {**text, "maxLength": 200},
        "lines": {"type": "array", "maxItems": MOST_LINES, "items": line},
        "total_cents": number,
        "ordered_ms": {**number, "minimum": 0, "description": "The customer's clock; without it, the shop's."},
        "email": {**text, "description": "Where mails go."},
    }
    order = _object(asked, optional=("ordered_ms", "email"))
    reasons = {"type": "array", "items": {"enum": [str(one) for one in OrderReason]}}
    said = {"order_id": text, **asked, "state": {"enum": [str(one) for one in State]}, "reasons": reasons, "href": text}
    claim = {"claim_id": text, "customer_id": text, "quantity": number, "cents": number, "at_ms": number, "changed_ms": number}
    refused = {"accepted": {"const": False}, "reason": {"enum": [str(one) for one in Reason]}, "left": number}
    wrong = _object({"pointer": {**text, "description": "Such as #/lines/0/quantity."}, "detail": text})
    return {
        "OrderRequest": {**order, "additionalProperties": False},
        "Placed": _object({"order_id": text, "state": {"const": "CREATED"}, "href": text, "verdict": text}),
        "Order": _object(said, optional=("email",)),
        "ClaimRequest": _object({"customer_id": text, "quantity": {**number, "minimum": 1, "maximum": MOST_A_CLAIM}}),
        "Claim": _object({**claim, "state": {"enum": [str(one) for one in ClaimState]}}),
        "Refused": _object({**refused, "again_ms": {"type": ["integer", "null"]}}),
        "Problem": _object(
            {"title": text, "status": number, "detail": text, "errors": {"type": "array", "items": wrong}}, optional=("errors",)
        ),
    }


def _object(fields: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": [name for name in fields if name not in optional]}


def _key() -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1, "maxLength": MOST_CHARACTERS}
    about = "A key of this request alone, such as a UUID; the same again when the request is repeated."
    return {"name": HEADER, "in": "header", "required": True, "schema": schema, "description": about}


def _path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _body(schema: str, example: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": _ref(schema), "example": example}}}


def _header(about: str) -> dict[str, Any]:
    return {"description": about, "schema": {"type": "string"}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


_MEANINGS: Final = {
    "400": "Something is missing or wrong; every field is named.",
    "403": "This shop only shows what happens.",
    "404": "There is none.",
    "408": "The body did not come in time.",
    "410": "It was not paid in time.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "422": "The key was used with another body.",
    "503": "The shop is opening, or no broker answers: ask again with the same key.",
}


def _problems(*codes: str) -> dict[str, Any]:
    return {code: {"description": _MEANINGS[code], "content": {MEDIA_TYPE: {"schema": _ref("Problem")}}} for code in codes}
