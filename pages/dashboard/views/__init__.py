"""The pages of the dashboard, for each kind of reader: analyst, operator, planner, and anyone with a certificate."""
