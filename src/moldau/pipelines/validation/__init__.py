"""● Order validation: three checks answer for each order, and a fourth step moves it to its final state.

`model.py` has the words, `details.py`, `inventory.py` and `verdict.py` the pure rules (fraud is `..rolling`), `frames.py` and
`processors.py` put them on Spark, `job.py` wires topics to them.  `oracle.py` computes every verdict again, without any of it.
"""
