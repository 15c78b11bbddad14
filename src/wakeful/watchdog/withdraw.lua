-- Take back a revival whose next job no worker has taken: the old attempt runs again, and its budget is not spent.
-- KEYS: budget, the next job, the failed job, the failed session or '', open revivals, owed events
-- ARGV: the revival before, the work, the events about it
local pending, job, session = record(KEYS[2]), record(KEYS[3]), record(KEYS[4])
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'gone' end
if not pending or not job or not exists(pending.key) or not exists(job.key) then return 'gone' end
if any_of(pending, { 'running', 'completed', 'failed' }) then return 'gone' end
local strange = misfit(pending, { 'pending' }) or misfit(job, { job.status, 'running' })
  or (session and misfit(session, { session.status, 'active' }))
if strange then return 'strange ' .. strange end
if not is_of(KEYS[5], 'zset') then return 'strange ' .. KEYS[5] end
if not is_of(KEYS[6], 'list') then return 'strange ' .. KEYS[6] end
remove(pending)
-- Its own writer may have saved either before, as still running or as ended; that is newer than the fenced record.
if any_of(job, { 'running', 'completed' }) then remove(job) else move(job, 'running') end
if session and exists(session.key) and not any_of(session, { 'active', 'dormant', 'completed' }) then
  move(session, 'active')
end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[5], ARGV[2])
for at = 3, #ARGV do redis.call('RPUSH', KEYS[6], ARGV[at]) end
return 'done'
