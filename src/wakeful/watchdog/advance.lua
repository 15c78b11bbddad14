-- Keep how far a revival has come, unless somebody was quicker.
-- KEYS: budget. ARGV: the revival as it was, the revival as it is then
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'gone' end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 'done'
