"""What a log knows of its producers.  Start at `state`; `snapshots` and `recall` bring back what a stop took away."""
