"""● The demonstration: real baskets through a stock client, a broker and Spark, and every verdict held against an oracle.

`options.py` what can be chosen, `main.py` the run from start to end, `stage.py` how orders get in and verdicts out,
`figures.py` what is counted, `report.py` the page that stays.
"""
