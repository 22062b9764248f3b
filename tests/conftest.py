"""Settings that every test shares: property tests draw the same examples each time and have no deadline."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", settings.get_profile("default"), deadline=None, max_examples=2000)
settings.load_profile("steady")
