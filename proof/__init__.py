"""● Our own laboratory: models, simulations, damage and planted bugs, by room.  Not in the wheel.

What users test with is `moldau.testing`.
"""
