-- Make the next job of a revival that was fenced and has none yet.
-- KEYS: budget, the failed job
-- ARGV: the revival before, the revival after, the next job's id, its created_at, its context, now
local job = record(KEYS[2])
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'gone' end
if not job or not exists(job.key) then return 'gone' end
local strange = misfit(job, { job.status, 'pending' })
if strange then return 'strange ' .. strange end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
repeated(job, ARGV[3], ARGV[4], ARGV[6], ARGV[5])
return 'done'
