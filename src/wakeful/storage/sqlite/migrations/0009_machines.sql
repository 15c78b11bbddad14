-- Every row about processes or files knows its machine: several machines may share a store. Rows that exist already are
-- of the machine that migrates them, because earlier versions took every row for their own.
CREATE TABLE machines (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    boot_id TEXT NOT NULL
) WITHOUT ROWID;

ALTER TABLE transitions ADD COLUMN machine TEXT NOT NULL DEFAULT '';

-- Whether the agent lived, for the other machines.
ALTER TABLE transitions ADD COLUMN alive INTEGER NOT NULL DEFAULT 0;

UPDATE transitions SET machine = this_machine(), alive = is_alive(record);

CREATE TABLE sessions_of_machines (
    machine TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    newest INTEGER NOT NULL,
    PRIMARY KEY (machine, id)
) WITHOUT ROWID;

INSERT INTO sessions_of_machines
SELECT this_machine(), id, version, newest FROM sessions;

DROP TABLE sessions;

ALTER TABLE sessions_of_machines RENAME TO sessions;

CREATE TABLE bookmarks_of_machines (
    machine TEXT NOT NULL,
    path BLOB NOT NULL,
    inode TEXT NOT NULL,
    "offset" INTEGER NOT NULL,
    head_hash BLOB NOT NULL,
    rule_version INTEGER NOT NULL,
    folded BLOB NOT NULL,
    PRIMARY KEY (machine, path)
);

INSERT INTO bookmarks_of_machines
SELECT this_machine(), path, inode, "offset", head_hash, rule_version, with_machine(folded) FROM bookmarks;

DROP TABLE bookmarks;

ALTER TABLE bookmarks_of_machines RENAME TO bookmarks;

ALTER TABLE intents ADD COLUMN machine TEXT NOT NULL DEFAULT '';

UPDATE intents SET machine = this_machine(), evidence = with_machine(evidence);

-- `epoch` is that of the document: a row of another machine is replaced only under a newer claim.
ALTER TABLE hostings ADD COLUMN machine TEXT NOT NULL DEFAULT '';

ALTER TABLE hostings ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;

UPDATE hostings SET machine = this_machine(), hosting = with_machine(hosting),
    epoch = json_extract(CAST(hosting AS TEXT), '$.epoch');

UPDATE leases SET holder = with_machine(holder) WHERE holder IS NOT NULL;

-- The machine of the daemon that started the attempt.
ALTER TABLE attempts ADD COLUMN machine TEXT NOT NULL DEFAULT '';

UPDATE attempts SET machine = this_machine();

-- Without a machine: what all machines share.
CREATE TABLE notes_of_machines (
    machine TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (machine, kind, key)
) WITHOUT ROWID;

INSERT INTO notes_of_machines
SELECT iif(kind IN ('pause', 'mute', 'lesson', 'issue', 'work_told', 'deed'), '', this_machine()), kind, key, with_machine(body)
FROM notes;

DROP TABLE notes;

ALTER TABLE notes_of_machines RENAME TO notes;

ALTER TABLE spendings ADD COLUMN machine TEXT NOT NULL DEFAULT '';

UPDATE spendings SET machine = this_machine() WHERE key NOT GLOB 'issue:*';

DROP INDEX spendings_of_key;

CREATE INDEX spendings_of_key ON spendings (machine, key);
