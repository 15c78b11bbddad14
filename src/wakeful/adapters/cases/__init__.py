"""Labelled cases: small sequences of events with the verdict they must lead to."""
