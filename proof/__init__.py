"""● Our own laboratory: models, simulations, damage and planted bugs, by room.  Not in the wheel.

Users test with `moldau.testing`.
"""
