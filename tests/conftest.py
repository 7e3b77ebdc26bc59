"""How much Hypothesis tries, and Ctrl-C for the programs under test.

`desk`, the default, tries the same examples every time: a change fails at its own gate, never at the next one's.  HYPOTHESIS_PROFILE=ci and
night look longer, and each time elsewhere; a finding of theirs becomes an @example.
"""

import os
import signal

from hypothesis import HealthCheck, settings

for name, examples in (("desk", 50), ("ci", 500), ("night", 50_000)):
    settings.register_profile(
        name, max_examples=examples, deadline=None, derandomize=name == "desk", suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "desk"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts a background job so, and the programs under test inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
