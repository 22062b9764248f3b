"""How often tests fail although all is right: the rates that their comments state, and the sum of one run of all.

Tests that draw from fixed seeds do not flake: they fail or pass in every run alike, and are not here. `test_rates.py`
holds the sum below `MOST`, and holds that no file states a rate and is missing.
"""

from __future__ import annotations

MOST = 1e-3
"""Of all tests in one run: a red run that is nobody's fault comes once in a thousand."""

EIGHT = 4e-9
"""Beyond eight standard errors, on either side, at most: a count of which five are chance is Poisson's, and is so rare.

A normal one is rarer still: beyond six with 2e-9. Of five by chance, it would be beyond six with 1e-6.
"""

TWELVE = 1e-14
"""Beyond twelve of them, beside geometric noise of the shuffler that is nearly all of the error: computed for demos."""

RATES = {
    "statistical/test_audit.py": 1e-8,
    "statistical/test_hop_noise.py": 2e-8,
    "statistical/test_longitudinal.py": 2e-6,
    "statistical/test_permutation.py": 20 * 1e-9,
    "statistical/test_randomizer.py": 2e-8,
    "statistical/test_running_audit.py": 2 * 1e-6 + 4 * 1e-7 + 4 * 1e-6,
    "cli/test_audit.py": 5e-7,
    "cli/test_demo.py": 1e-8 + (19 + 16 * 4 + 3 + 16 + 12) * TWELVE,
    "cli/test_questions.py": 25 * EIGHT,
    "cli/test_tasks.py": 7 * TWELVE,
    "simulation/test_digits.py": 2 * TWELVE,
    "simulation/test_flood.py": 3 * 1e-7 + 3 * 1e-6,
    "simulation/test_texts.py": 4 * EIGHT + 1e-8,
    "simulation/test_prefixes.py": 3 * EIGHT + 1e-8,
    "simulation/test_longitudinal.py": 4 * EIGHT + 3 * TWELVE,
    "simulation/test_pipeline.py": (4 + 4 + 7) * EIGHT,
    "simulation/test_questions.py": 60 * EIGHT,
    "simulation/test_relay.py": 1e-9,
    "unit/client/session/test_send_time.py": 1e-9,
    "unit/deploy/audit/test_inference.py": 1e-6,
    "unit/deploy/audit/test_scores.py": 1e-6,
    "unit/deploy/operator/test_prefixes.py": 10 * EIGHT,
    "unit/planning/test_digits.py": TWELVE,
    "unit/planning/simulate/test_simulate.py": 2 * 3 * EIGHT,
    "unit/shuffler/mix/test_dummies.py": 6e-8,
    "unit/queries/questions/test_variance.py": 2 * 2e-9,
    "unit/queries/randomizers/test_hashed.py": 1e-6,
}
"""The rate of each file whose tests draw afresh in every run, all its checks together."""

SEEDED = frozenset(
    f"statistical/test_{name}.py"
    for name in ("digits", "estimates", "hashed", "heavy_hitters", "intervals", "noise", "questions")
)
"""Files that state the rate of a new seed, and fix theirs."""
