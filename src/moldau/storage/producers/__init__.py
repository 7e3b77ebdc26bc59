"""The state of a log's producers.  Start at `state`; `snapshots` and `recall` restore what a stop took away."""
