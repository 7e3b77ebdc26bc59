"""● The promotion: at most five burgers a customer within any 24 hours, on the burger lines of real baskets.

`model.py` has the words, the rule is `..customer`, `job.py` puts it on Spark, `oracle.py` computes every verdict again.
"""
