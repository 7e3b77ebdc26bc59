"""● Simulated clock, network and files, embedded clusters, checkers: shipped, users test with it too."""
