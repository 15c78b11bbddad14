-- Transitions hold every record once; a session only points at its newest one. So retention must leave
-- that transition alone, and seq never returns because the highest one is never deleted either.
CREATE TABLE transitions (
    seq INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    at REAL NOT NULL,
    old_state TEXT NOT NULL,
    new_state TEXT NOT NULL,
    old_health TEXT NOT NULL,
    new_health TEXT NOT NULL,
    reason TEXT NOT NULL,
    record BLOB NOT NULL
);

-- An index ends with the rowid, here seq, so each of these is ordered by seq too.
CREATE INDEX transitions_of_session ON transitions (session_id);

CREATE INDEX transitions_by_age ON transitions (at);

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    newest INTEGER NOT NULL
) WITHOUT ROWID;

-- AUTOINCREMENT: a number that was settled must never name a later effect.
CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    payload BLOB NOT NULL
);

-- A path is bytes: Linux allows names that are not UTF-8. An inode is text: it may exceed 63 bits.
CREATE TABLE bookmarks (
    path BLOB PRIMARY KEY,
    inode TEXT NOT NULL,
    "offset" INTEGER NOT NULL,
    head_hash BLOB NOT NULL,
    rule_version INTEGER NOT NULL,
    folded BLOB NOT NULL
);

CREATE TABLE intents (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    act TEXT NOT NULL,
    evidence BLOB NOT NULL,
    at REAL NOT NULL,
    outcome TEXT,
    outcome_reason TEXT,
    concluded_at REAL
);

CREATE INDEX intents_open ON intents (seq) WHERE outcome IS NULL;
