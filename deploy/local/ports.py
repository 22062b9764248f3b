"""Maps the names under which a service announces its ports to the settings with their addresses."""

from __future__ import annotations

from collections.abc import Mapping

from hubbub.protos.identity.keys import Role

SETTINGS: Mapping[Role, Mapping[str, str]] = {
    Role.ANALYZER: {"delivery": "delivery_listen", "results": "results_listen", "metrics": "metrics_listen"},
    Role.SHUFFLER: {"submission": "listen", "control": "control_listen", "metrics": "metrics_listen"},
    Role.HOP: {"delivery": "listen", "metrics": "metrics_listen"},
}
"""Those that every service of a kind has; the first is asked whether the service works."""

FREE = "127.0.0.1:0"
"""Port 0 lets the system choose a free port, so that several pipelines can run at the same time."""
