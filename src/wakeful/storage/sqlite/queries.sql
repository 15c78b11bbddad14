-- name: last_seq
SELECT coalesce(max(seq), 0) FROM transitions

-- name: insert_transition
INSERT INTO transitions (seq, session_id, at, old_state, new_state, old_health, new_health, reason, record, turn_ended_at,
    left_out, alive, machine)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: point_session
INSERT INTO sessions (machine, id, version, newest) VALUES (?, ?, 1, ?)
ON CONFLICT (machine, id) DO UPDATE SET version = version + 1, newest = excluded.newest

-- name: sessions
SELECT sessions.id, sessions.version, transitions.record, transitions.at
FROM sessions JOIN transitions ON transitions.seq = sessions.newest
WHERE sessions.machine = ? ORDER BY sessions.id

-- name: sessions_elsewhere
SELECT sessions.id, machines.host, hostings.hosting
FROM machines CROSS JOIN sessions ON sessions.machine = machines.id
JOIN transitions ON transitions.seq = sessions.newest
LEFT JOIN hostings ON hostings.session_id = sessions.id AND hostings.machine = sessions.machine
WHERE machines.id <> ?1 AND (transitions.alive OR hostings.session_id IS NOT NULL)
UNION ALL
SELECT hostings.session_id, machines.host, hostings.hosting
FROM hostings CROSS JOIN machines ON machines.id = hostings.machine
WHERE hostings.machine <> ?1
AND NOT EXISTS (SELECT 1 FROM sessions WHERE machine = hostings.machine AND id = hostings.session_id)

-- name: transitions
SELECT session_id, at, old_state, new_state, old_health, new_health, reason, record, seq, turn_ended_at, left_out,
    alive
FROM transitions WHERE seq > ? AND machine = ? ORDER BY seq LIMIT ?

-- name: transitions_of_session
SELECT session_id, at, old_state, new_state, old_health, new_health, reason, record, seq, turn_ended_at, left_out,
    alive
FROM transitions WHERE session_id = ? AND seq > ? AND machine = ? ORDER BY seq LIMIT ?

-- name: moves
SELECT session_id, old_state, new_state, old_health, new_health, count(*)
FROM transitions WHERE at >= ? AND machine = ? GROUP BY session_id, old_state, new_state, old_health, new_health

-- name: state_changes
SELECT session_id, at, old_state, old_health, new_state, new_health, reason
FROM transitions WHERE at >= ? AND machine = ? ORDER BY at DESC, seq DESC LIMIT ?

-- name: finished_turns
SELECT session_id, count(DISTINCT turn_ended_at), max(turn_ended_at)
FROM transitions WHERE at >= ?1 AND turn_ended_at >= ?1 AND machine = ?2 GROUP BY session_id

-- name: forget
DELETE FROM sessions WHERE machine = ? AND id = ?

-- name: prune
DELETE FROM transitions WHERE seq IN (
    SELECT seq FROM transitions AS old
    WHERE at < ?
    AND seq < (SELECT max(seq) FROM transitions)
    AND NOT EXISTS (SELECT 1 FROM sessions WHERE machine = old.machine AND id = old.session_id AND newest = old.seq)
    LIMIT ?
)

-- name: save_bookmark
INSERT OR REPLACE INTO bookmarks (machine, path, inode, "offset", head_hash, rule_version, folded)
VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: drop_bookmark
DELETE FROM bookmarks WHERE machine = ? AND path = ?

-- name: bookmarks
SELECT path, inode, "offset", head_hash, rule_version, folded FROM bookmarks WHERE machine = ? ORDER BY path

-- name: intend
INSERT INTO intents (id, session_id, act, evidence, at, machine) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING

-- name: conclude
UPDATE intents SET outcome = ?, outcome_reason = ?, concluded_at = ? WHERE id = ? AND outcome IS NULL

-- name: open_intents
SELECT id, session_id, act, evidence, at FROM intents WHERE outcome IS NULL AND machine = ? ORDER BY seq

-- name: enqueue
INSERT INTO works (id, project, prompt, session_id, context, created_at, state, attempts, attempts_max, not_before,
    lease_key)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, 'pending', 0, ?7, ?8, ?9 WHERE NOT EXISTS (SELECT 1 FROM works WHERE id = ?1)

-- name: next_work
SELECT works.id, project, prompt, session_id, context, created_at, state, attempts, attempts_max, not_before, seq
FROM works LEFT JOIN leases ON leases.key = works.lease_key
WHERE state = 'pending' AND not_before <= ?1 AND (?2 IS NULL OR project = ?2)
AND (leases.owner IS NULL OR leases.expires_at <= ?1)
AND NOT EXISTS (SELECT 1 FROM hostings WHERE hostings.session_id = works.session_id AND hostings.machine <> ?3)
ORDER BY seq LIMIT 1

-- name: claim_lease
INSERT INTO leases (key, epoch, owner, since, expires_at, holder) VALUES (?1, 1, ?2, ?3, ?4, ?5)
ON CONFLICT (key) DO UPDATE SET epoch = epoch + 1, owner = excluded.owner, since = excluded.since,
    expires_at = excluded.expires_at, holder = excluded.holder
WHERE leases.owner IS NULL OR leases.expires_at <= excluded.since OR leases.holder = ?6
RETURNING epoch

-- name: lease
SELECT key, epoch, owner, since, expires_at, holder FROM leases WHERE key = ?

-- name: leases
SELECT key, epoch, owner, since, expires_at, holder FROM leases INDEXED BY leases_held
WHERE owner IS NOT NULL ORDER BY key

-- name: renew_lease
UPDATE leases SET expires_at = ?, holder = coalesce(?, holder)
WHERE key = ? AND epoch = ? AND owner IS NOT NULL

-- name: yield_lease
UPDATE leases SET owner = NULL, holder = NULL WHERE key = ? AND epoch = ? AND owner IS NOT NULL

-- name: start_work
UPDATE works SET state = 'running', attempts = ? WHERE id = ? AND state = 'pending'

-- name: start_attempt
INSERT INTO attempts (work_id, number, epoch, owner, state, claimed_at, result, lease_key, machine)
VALUES (?, ?, ?, ?, 'running', ?, '', ?, ?)

-- name: heartbeat
UPDATE leases SET expires_at = ?1
WHERE key = (SELECT lease_key FROM attempts WHERE work_id = ?2 AND epoch = ?3 AND state = 'running')
AND epoch = ?3 AND owner IS NOT NULL

-- name: end_attempt
UPDATE attempts SET state = ?1, ended_at = ?2, result = ?3
WHERE work_id = ?4 AND epoch = ?5 AND state = 'running' AND EXISTS (
    SELECT 1 FROM leases WHERE key = attempts.lease_key AND epoch = ?5 AND owner IS NOT NULL
)

-- name: expire_attempt
UPDATE attempts SET state = 'expired', ended_at = ?, result = ? WHERE work_id = ? AND epoch = ? AND state = 'running'

-- name: end_work
UPDATE works SET state = ? WHERE id = ? AND state = 'running'

-- name: ended_runs
SELECT attempts.number, attempts.epoch, attempts.owner, works.id, project, prompt, session_id, context, created_at,
    works.state, works.attempts, attempts_max, not_before, seq
FROM attempts INDEXED BY attempts_running JOIN works ON works.id = attempts.work_id
LEFT JOIN leases ON leases.key = attempts.lease_key
WHERE attempts.state = 'running' AND attempts.machine = ?2
AND (leases.epoch IS NOT attempts.epoch OR leases.owner IS NULL OR leases.expires_at <= ?1)
ORDER BY seq

-- name: next_expiry
SELECT min(iif(leases.epoch IS attempts.epoch AND leases.owner IS NOT NULL, leases.expires_at, 0.0))
FROM attempts INDEXED BY attempts_running LEFT JOIN leases ON leases.key = attempts.lease_key
WHERE attempts.state = 'running' AND attempts.machine = ?

-- name: work
SELECT id, project, prompt, session_id, context, created_at, state, attempts, attempts_max, not_before, seq
FROM works WHERE id = ?

-- name: works
SELECT id, project, substr(prompt, 1, ?), session_id, '', created_at, state, attempts, attempts_max, not_before, seq
FROM works WHERE seq > ? ORDER BY seq LIMIT ?

-- name: works_in_state
SELECT id, project, substr(prompt, 1, ?), session_id, '', created_at, state, attempts, attempts_max, not_before, seq
FROM works WHERE seq > ? AND state = ? ORDER BY seq LIMIT ?

-- name: attempts
SELECT work_id, number, epoch, owner, state, claimed_at, ended_at, result
FROM attempts WHERE work_id = ? ORDER BY number

-- name: host
INSERT INTO hostings (session_id, hosting, machine, epoch) VALUES (?, ?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET hosting = excluded.hosting, machine = excluded.machine, epoch = excluded.epoch
WHERE hostings.machine = excluded.machine OR hostings.epoch < excluded.epoch

-- name: unhost
DELETE FROM hostings WHERE session_id = ? AND machine = ?

-- name: hostings
SELECT hosting FROM hostings WHERE machine = ? ORDER BY session_id

-- name: keep_note
INSERT INTO notes (machine, kind, key, body) VALUES (?, ?, ?, ?)
ON CONFLICT (machine, kind, key) DO UPDATE SET body = excluded.body

-- name: keep_new_note
INSERT INTO notes (machine, kind, key, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: replace_note
UPDATE notes SET body = ?5 WHERE machine = ?1 AND kind = ?2 AND key = ?3 AND body = ?4

-- name: drop_note
DELETE FROM notes WHERE machine = ? AND kind = ? AND key = ?

-- name: notes
SELECT kind, key, body FROM notes WHERE machine = ? AND kind = ? ORDER BY key

-- name: note
SELECT kind, key, body FROM notes WHERE machine = ? AND kind = ? AND key = ?

-- name: spent
SELECT count(*) FROM spendings WHERE machine = ? AND key = ? AND at > ?

-- name: spend
INSERT INTO spendings (machine, key, at) VALUES (?, ?, ?)

-- name: give_back
DELETE FROM spendings WHERE seq = (SELECT max(seq) FROM spendings WHERE machine = ? AND key = ?)

-- name: prune_spendings
DELETE FROM spendings WHERE at < ?

-- name: machine
SELECT host, boot_id FROM machines WHERE id = ?

-- name: save_machine
INSERT OR REPLACE INTO machines (id, host, boot_id) VALUES (?, ?, ?)

-- name: other_machines
SELECT id FROM machines WHERE id <> ?

-- name: forget_other_machines
DELETE FROM machines WHERE id <> ?
