"""● The producer, the consumer, the share consumer and the admin client have a folder each.  They share `cluster`, `topics`, `records` and
`options`.

async with Admin("localhost:9092") as admin:
    await admin.topics.create([NewTopic("hello")])
async with Producer("localhost:9092") as producer:
    await producer.send("hello", b"world")
async with Consumer("localhost:9092", group_id="readers", topics=["hello"]) as consumer:
    async for record in consumer:
        ...
"""
