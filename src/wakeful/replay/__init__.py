"""Recorded logs judged again, tuning and labelled cases."""
