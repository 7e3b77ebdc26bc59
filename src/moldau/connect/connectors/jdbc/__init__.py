"""● Tables of SQL databases, by SQLAlchemy: a source that polls (`source`), a sink that upserts and deletes (`sink`)."""
