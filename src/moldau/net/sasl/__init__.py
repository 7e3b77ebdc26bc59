"""◇ SASL mechanisms as bytes machines, both roles."""
