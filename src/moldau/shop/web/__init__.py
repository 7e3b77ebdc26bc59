"""● HTTP: requests in, answers and problems out, events as they happen."""
