"""The store on SQLite: one writer thread, group commit, migrations."""
