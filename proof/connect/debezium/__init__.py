"""● Debezium's PostgreSQL connector and ours read the same random stories: their records must be equal, field by field, schemas too.

    python -m proof.connect.debezium --stories 50 --seed 1                  our task is cut off at random
    python -m proof.connect.debezium --stories 5 --kills 5                  a worker of ours gets SIGKILL
    python -m proof.connect.debezium --stories 5 --busy                     the tables change while both take their snapshots
    python -m proof.connect.debezium --stories 1 --large 1000000            with a transaction of so many rows

Start reading in `play`.  What may differ is listed in `comparison`.
"""
