"""● Transactions under requests that are late, lost, doubled and overtaken by those of the next transaction: schedules from seeds.

    python -m proof.transactions.schedules --seed 1 --schedules 1000      # violations by seed, and counts of events
    python -m proof.transactions.schedules --plant no-verification        # how soon a planted fault is found

`schedule.py` is one schedule.  `wire.py` carries the requests, with all faults.  `session.py` is a transactional client that times out,
tries again on a new connection, gives up, dies, or lives on as a zombie; `client.py` fills its transactions.  `room.py` has the broker's
real handlers, coordinators and logs.  `verdict.py` checks the promises in the end.  `plants.py` breaks the broker on purpose.
"""
