-- Where managed sessions live; a row is what makes a session managed.
CREATE TABLE hostings (
    session_id TEXT PRIMARY KEY,
    hosting BLOB NOT NULL
) WITHOUT ROWID;
