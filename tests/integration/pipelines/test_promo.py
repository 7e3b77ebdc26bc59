"""The burger promotion on every burger line of the year."""

import pytest
from pyspark.sql import SparkSession

from moldau.pipelines import retail
from moldau.pipelines.ends import Ends
from moldau.pipelines.promo import job, oracle, shop
from moldau.pipelines.promo.model import PromoTopics, promo_lines

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_every_verdict_is_the_oracles(spark: SparkSession, either_bootstrap: str, prefix: str, checkpoint: str) -> None:
    topics = PromoTopics.prefixed(prefix)
    lines = list(promo_lines(retail.orders(), retail.burger_product_ids()))
    assert shop.send_lines(either_bootstrap, topics, lines, partitions=2) == 6_583
    config = job.PromoConfig(Ends(either_bootstrap, checkpoint, max_records_per_batch=3_000), topics)
    job.start_available(spark, config).awaitTermination()
    found = shop.read_verdicts(either_bootstrap, topics)
    assert found == oracle.expect(lines)
    assert sum(reason is not None for reason in found.values()) == 29
