-- Take a revival back whose next job nobody has taken: the old attempt runs again, and its budget is not spent.
-- KEYS: budget, the next job, the failed job, the failed session or '', open revivals
-- ARGV: the revival as it was, the work
local pending, job, session = record(KEYS[2]), record(KEYS[3]), record(KEYS[4])
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'gone' end
if not pending or not job or not exists(pending.key) or not exists(job.key) then return 'gone' end
for _, status in ipairs({ 'running', 'completed', 'failed' }) do
  if exists(pending.stem .. status) then return 'gone' end
end
local strange = misfit(pending, { 'pending' }) or misfit(job, { job.status, 'running' })
  or (session and misfit(session, { session.status, 'active' }))
if strange then return 'strange ' .. strange end
remove(pending)
move(job, 'running')
-- Its own writer may have saved it as active before us.
if session and exists(session.key) and not exists(session.stem .. 'active') then move(session, 'active') end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[5], ARGV[2])
return 'done'
