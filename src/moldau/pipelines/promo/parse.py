"""◇ Records of the promotion taken apart: bytes in, a line out, or `Malformed` with a reason."""

from moldau.pipelines.promo.model import PromoLine
from moldau.pipelines.strict import OUT_OF_RANGE, Malformed, integer, json_object, text


def line(key: bytes | None, value: bytes | None) -> PromoLine:
    body = json_object(value)
    found = PromoLine(text(body, "line_id"), text(body, "customer_id"), integer(body, "bought_ms"), integer(body, "quantity"))
    if found.quantity < 1:
        raise Malformed(OUT_OF_RANGE)
    return found
