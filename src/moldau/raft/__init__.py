"""KRaft: the metadata log agrees with itself on one leader and one order.

Start reading at `node.py` (the machine), then `driver.py` (the loop around it); `roles.py`, `voters.py` and `snapshots.py` are its
vocabulary.
"""
