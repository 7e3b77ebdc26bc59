"""● What makes the command line comfortable: profiles, completion, watching."""
