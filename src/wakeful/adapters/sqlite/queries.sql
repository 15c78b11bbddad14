-- name: last_seq
SELECT coalesce(max(seq), 0) FROM transitions

-- name: insert_transition
INSERT INTO transitions (seq, session_id, at, old_state, new_state, old_health, new_health, reason, record)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: point_session
INSERT INTO sessions (id, version, newest) VALUES (?, 1, ?)
ON CONFLICT (id) DO UPDATE SET version = version + 1, newest = excluded.newest

-- name: owe
INSERT INTO outbox (kind, payload) VALUES (?, ?)

-- name: sessions
SELECT sessions.id, sessions.version, transitions.record, transitions.at
FROM sessions JOIN transitions ON transitions.seq = sessions.newest
ORDER BY sessions.id

-- name: transitions
SELECT session_id, at, old_state, new_state, old_health, new_health, reason, record, seq
FROM transitions WHERE seq > ? ORDER BY seq LIMIT ?

-- name: transitions_of_session
SELECT session_id, at, old_state, new_state, old_health, new_health, reason, record, seq
FROM transitions WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: forget
DELETE FROM sessions WHERE id = ?

-- name: prune
DELETE FROM transitions WHERE seq IN (
    SELECT seq FROM transitions AS old
    WHERE at < ?
    AND seq < (SELECT max(seq) FROM transitions)
    AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = old.session_id AND newest = old.seq)
    LIMIT ?
)

-- name: take_outbox
SELECT seq, kind, payload FROM outbox ORDER BY seq LIMIT ?

-- name: settle
DELETE FROM outbox WHERE seq = ?

-- name: save_bookmark
INSERT OR REPLACE INTO bookmarks (path, inode, "offset", head_hash, rule_version, folded)
VALUES (?, ?, ?, ?, ?, ?)

-- name: bookmarks
SELECT path, inode, "offset", head_hash, rule_version, folded FROM bookmarks ORDER BY path

-- name: intend
INSERT INTO intents (id, session_id, act, evidence, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING

-- name: conclude
UPDATE intents SET outcome = ?, outcome_reason = ?, concluded_at = ? WHERE id = ? AND outcome IS NULL

-- name: open_intents
SELECT id, session_id, act, evidence, at FROM intents WHERE outcome IS NULL ORDER BY seq
