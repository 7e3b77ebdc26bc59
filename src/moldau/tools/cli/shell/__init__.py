"""● Comfort on the command line: profiles, completion, watching.  Start at `profiles`."""
