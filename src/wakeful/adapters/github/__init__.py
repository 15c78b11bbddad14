"""GitHub, through the program `gh` as its user set it up: no token of it is ever seen here."""
