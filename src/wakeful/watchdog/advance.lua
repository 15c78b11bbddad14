-- Store the progress of a revival, unless another watchdog changed it first.
-- KEYS: budget. ARGV: the revival before, the revival after
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'gone' end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 'done'
