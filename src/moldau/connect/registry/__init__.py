"""● Schemas in a schema registry: `client` asks it over HTTP, `cache` ◇ remembers its answers, `framing` ◇ is the form of records."""
