"""Pure rules: no IO, no clock, no async, no logging. Everything here is a function of its arguments."""
