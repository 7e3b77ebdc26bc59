"""● Kafka Connect in Python: `moldau connect worker.properties` runs a worker with Kafka Connect's REST API, topics and configurations.

    declare/      ◇ options of a plug-in: their declaration and validation
    data.py       ◇ Connect's data: schemas, structs, records
    converters/   ◇ between data and bytes          transforms/  ◇ single-message transforms and predicates
    store/        what the worker's three topics say: configurations, states, offsets
    worker/       a worker: membership, connectors and tasks, their errors
    rest/         the REST API
    connectors/   the connectors that come with it

Start reading at `worker/herder.py`.
"""
