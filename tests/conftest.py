"""How much Hypothesis tries: `desk` is quick, HYPOTHESIS_PROFILE=ci or night looks longer."""

import os

from hypothesis import HealthCheck, settings

for name, examples in (("desk", 50), ("ci", 500), ("night", 50_000)):
    settings.register_profile(name, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "desk"))
