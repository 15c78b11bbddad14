-- Mark a session and its job failed, both or neither.
-- KEYS: session or '', job
local session, job = record(KEYS[1]), record(KEYS[2])
local problem = fenceable(session, job)
if problem then return problem end
move(job, 'failed')
if session then fail(session) end
return 'done'
