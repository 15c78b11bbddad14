"""When and how a session is resumed: plan, budget, limits, outage probe."""
