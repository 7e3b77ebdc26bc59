"""● Producer, consumer, share consumer, admin: each in a room of its own, on what they share: `cluster`, `topics`, `records`, `options`.

async with Admin("localhost:9092") as admin:
    await admin.topics.create([NewTopic("hello")])
async with Producer("localhost:9092") as producer:
    await producer.send("hello", b"world")
async with Consumer("localhost:9092", group_id="readers", topics=["hello"]) as consumer:
    async for record in consumer:
        ...
"""
