"""Events to activity, findings, verdict, record and explanation. Pure."""
