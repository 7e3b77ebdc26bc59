"""The records that the proof of odd records makes: no parser takes one of them, and all take the good ones."""

import random
from itertools import islice

import pytest

from moldau.pipelines.promo import parse as promo
from moldau.pipelines.promo.model import PromoTopics
from moldau.pipelines.strict import Malformed
from moldau.pipelines.validation import parse as validation
from proof.pipelines.odd import APPLICATIONS, KINDS, odd_records

PARSERS = {"orders": validation.order, "stock-requests": validation.stock_request, "promo-lines": promo.line}


@pytest.mark.parametrize("name", list(APPLICATIONS))
def test_every_kind_is_malformed_on_every_input(name: str) -> None:
    application, met = APPLICATIONS[name](""), set()
    for kind, sent in islice(odd_records(random.Random(1), application.inputs()), 400):
        met.add((sent.topic, kind))
        with pytest.raises(Malformed):
            PARSERS[sent.topic](sent.key, sent.value)
    assert met == {(topic, kind) for topic, _ in application.inputs() for kind in KINDS}
    for good in application.good("g", 1_000, 1):
        assert PARSERS[good.topic](good.key, good.value)


def test_a_dead_letter_of_the_promotion_may_be_larger_than_a_line_by_its_headers() -> None:
    topics = PromoTopics.prefixed("p-")
    assert int(topics.configs()[topics.dead_letters]["max.message.bytes"]) > 1_048_588
    assert topics.configs().keys() == set(topics)
