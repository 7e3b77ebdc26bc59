"""● Tools for users' tests: a broker in the test's process, a cluster of processes, simulated clock, network and files, checkers.

Start with `embedded` for one broker, with `cluster` for several; `pytest_plugin` has the fixtures.
"""
