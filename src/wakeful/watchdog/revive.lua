-- Spend the budget, fence the old owner and make the next job: one step, or none.
-- KEYS: budget, session or '', job, open revivals
-- ARGV: the revival that spends the budget, for how many seconds, the work, now, the next job's id or '', its created_at, its context
local session, job = record(KEYS[2]), record(KEYS[3])
local problem = fenceable(session, job)
if problem then return problem end
if exists(KEYS[1]) then return 'spent' end
if not is_of(KEYS[4], 'zset') then return 'strange ' .. KEYS[4] end

redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2])
redis.call('ZADD', KEYS[4], ARGV[4], ARGV[3])
local failed = record(move(job, 'failed'))
if session then fail(session) end
if ARGV[5] ~= '' then repeated(failed, ARGV[5], ARGV[6], ARGV[4], ARGV[7]) end
return 'done'
