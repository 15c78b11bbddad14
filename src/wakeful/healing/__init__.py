"""When and how a session is brought back: plan, budget, limits, outage probe."""
