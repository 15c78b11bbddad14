-- What a person asked for. AUTOINCREMENT: lists go on from a number, which must never name a later work.
CREATE TABLE works (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    project TEXT NOT NULL,
    prompt TEXT NOT NULL,
    session_id TEXT,
    context TEXT NOT NULL,
    created_at REAL NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    attempts_max INTEGER NOT NULL,
    not_before REAL NOT NULL,
    lease_key TEXT NOT NULL
);

-- Ends with the rowid, here seq: the oldest pending work is its first entry.
CREATE INDEX works_in_state ON works (state);

-- Rows stay when a lease is given back: the epoch in them must never fall.
CREATE TABLE leases (
    key TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    owner TEXT,
    since REAL NOT NULL,
    expires_at REAL NOT NULL,
    holder BLOB
) WITHOUT ROWID;

CREATE INDEX leases_held ON leases (key) WHERE owner IS NOT NULL;

CREATE TABLE attempts (
    work_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    owner TEXT NOT NULL,
    state TEXT NOT NULL,
    claimed_at REAL NOT NULL,
    ended_at REAL,
    result TEXT NOT NULL,
    lease_key TEXT NOT NULL,
    PRIMARY KEY (work_id, number)
) WITHOUT ROWID;

CREATE INDEX attempts_running ON attempts (lease_key) WHERE state = 'running';
