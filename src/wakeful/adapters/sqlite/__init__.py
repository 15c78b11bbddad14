"""The embedded store: SQLite in one file. The only code that speaks to SQLite; nothing here judges or acts."""
