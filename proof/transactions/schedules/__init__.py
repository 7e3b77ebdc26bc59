"""● Transactions under requests that are late, lost, doubled and overtaken by those of the next transaction: schedules from seeds.

    python -m proof.transactions.schedules --seed 1 --schedules 1000      # violations by seed, and what was tried
    python -m proof.transactions.schedules --plant no-verification        # how soon a planted fault is found

`schedule.py` is one schedule; `wire.py` what happens to requests on the way; `session.py` a transactional client that times out, tries
again on a new connection, gives up, dies, or lives on as a zombie, and `client.py` what it does in a transaction; `room.py` the broker's
real handlers, coordinators and logs; `verdict.py` says what must hold in the end; `plants.py` breaks the broker on purpose.
"""
