"""One group of four clients on a real broker: ours, Java's, confluent-kafka and aiokafka.  Members are killed, and the group loses nothing.

Start with `run`; `notes` has the promises that are checked.
"""
