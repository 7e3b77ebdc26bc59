"""● Order validation: three checks answer for each order, and a fourth step moves it to its final state.

`model.py` has the words, `parse.py` takes records apart, `details.py`, `inventory.py` and `verdict.py` are the pure rules
(fraud is `..customer`), `frames.py` and `processors.py` put them on Spark, and `job.py` wires topics to them.  `oracle.py`
computes every verdict again, without any of it.
"""
