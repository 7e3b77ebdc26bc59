"""KRaft: the metadata log agrees with itself on one leader and one order.

Start reading at `machine/node.py`, then `driver.py` (the loop around it); `roles.py`, `voters.py` and `snapshots.py` are its
vocabulary.
"""
