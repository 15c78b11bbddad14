-- A session may be idle before its log says how its turn ended: each transition keeps the end of the newest turn that is
-- known to have ended well. Several transitions may keep the same end.
ALTER TABLE transitions ADD COLUMN turn_ended_at REAL;

-- As earlier versions counted.
UPDATE transitions SET turn_ended_at = at
WHERE old_state IN ('prompting', 'waiting') AND new_state IN ('idle', 'stopped', 'detached')
AND new_health IN ('healthy', 'stale');
