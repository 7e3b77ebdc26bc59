"""● Producer, consumer, admin: start at `cluster`, which the three share.

async with Cluster.connect("localhost:9092") as cluster:
    await Admin(cluster).create_topics([NewTopic("hello")])
    async with Producer(cluster) as producer:
        await producer.send("hello", b"world")
    consumer = Consumer(cluster)
    await consumer.assign({TopicPartition("hello", 0): EARLIEST})
    for record in await consumer.poll():
        ...
"""
