-- Small things that must outlive the daemon: mutes, pauses, cases, incidents, alerts that are owed.
CREATE TABLE notes (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

-- One row for every time a budget was spent; what is older than its window no longer counts.
CREATE TABLE spendings (
    seq INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    at REAL NOT NULL
);

CREATE INDEX spendings_of_key ON spendings (key);

CREATE INDEX spendings_by_age ON spendings (at);
