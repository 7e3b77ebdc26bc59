"""The tutorial's order has the id that its key gives, so that its lines can be pasted as they stand."""

import re
from pathlib import Path

from moldau.shop.web.keys import id_of

PAGE = Path(__file__).parents[3] / "docs/tutorial/order-on-the-page.md"


def test_the_ids_on_the_page_are_those_of_the_key() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (key,) = re.findall(r"-H 'Idempotency-Key: (my-[^']+)'", page)
    assert set(re.findall(r"\bo-[0-9a-f]{20,}", page)) == {id_of("o", key)}
