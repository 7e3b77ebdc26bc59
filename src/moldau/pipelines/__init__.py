"""● Everything that runs on Spark Structured Streaming, over `format("moldau")` (package `pyspark_moldau`).

Start reading at `rolling.py`, the rule that two jobs share, then `validation/` (the order validation, the main job) and
`promo/` (five burgers a day).  A job is three things: pure rules (`step(state, event)`), pure frames (DataFrame →
DataFrame) and one thin `build(spark, config)`.  `demo/` feeds the jobs with real baskets and checks every verdict.
"""
