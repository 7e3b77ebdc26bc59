"""◇ Options of connectors, transforms and converters: declared once; validated and described from the declaration."""
