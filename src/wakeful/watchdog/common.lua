-- The beginning of revive, fence, enqueue and withdraw: popoto's records, and moving one to another status.
-- Redis undoes nothing of a script that fails half way, so every key is checked before the first one is changed.

local PROJECT_FIRST = { AgentSession = true }
local SORTED = { AgentSession = { 'started_at', 'last_activity' }, RedisJob = { 'created_at' } }

local function record(key)
  local model, first, second, status = string.match(key, '^([^:]+):([^:]*):([^:]*):([^:]*)$')
  if not SORTED[model] then return nil end
  local project, own = second, first
  if PROJECT_FIRST[model] then project, own = first, second end
  return { key = key, model = model, project = project, own = own, status = status,
    stem = model .. ':' .. first .. ':' .. second .. ':' }
end

-- The sets every record of its kind is in, whatever its status.
local function sets_of(one)
  local sets = { '$Class:' .. one.model, '$KeyF:' .. one.model .. ':project_key:' .. one.project }
  if one.model == 'AgentSession' then
    sets[#sets + 1] = '$UniqueKeyF:AgentSession:session_id:' .. one.own
  end
  return sets
end

local function status_set(one, status)
  return '$KeyF:' .. one.model .. ':status:' .. status
end

-- A sorted field may be split by project or not.
local function sorted_of(one)
  local names = {}
  for _, field in ipairs(SORTED[one.model]) do
    names[#names + 1] = '$SortF:' .. one.model .. ':' .. field
    names[#names + 1] = '$SortF:' .. one.model .. ':' .. field .. ':' .. one.project
  end
  return names
end

local function is_of(name, kind)
  local found = redis.call('TYPE', name).ok
  return found == kind or found == 'none'
end

-- The first key with a value of another type than popoto writes, or nil.
local function misfit(one, statuses)
  if not is_of(one.key, 'hash') then return one.key end
  for _, name in ipairs(sets_of(one)) do
    if not is_of(name, 'set') then return name end
  end
  for _, name in ipairs(sorted_of(one)) do
    if not is_of(name, 'zset') then return name end
  end
  for _, status in ipairs(statuses) do
    if not is_of(status_set(one, status), 'set') then return status_set(one, status) end
    if not is_of(one.stem .. status, 'hash') then return one.stem .. status end
  end
  return nil
end

local function exists(key)
  return redis.call('EXISTS', key) == 1
end

-- Whether a record is there under one of these statuses.
local function any_of(one, statuses)
  for _, status in ipairs(statuses) do
    if exists(one.stem .. status) then return true end
  end
  return false
end

-- RENAME replaces a record that a late writer left behind under the same name.
local function move(one, status)
  local moved = one.stem .. status
  for _, name in ipairs(sets_of(one)) do
    redis.call('SREM', name, one.key)
    redis.call('SADD', name, moved)
  end
  for _, name in ipairs(sorted_of(one)) do
    local score = redis.call('ZSCORE', name, one.key)
    if score then
      redis.call('ZREM', name, one.key)
      redis.call('ZADD', name, score, moved)
    end
  end
  redis.call('SREM', status_set(one, one.status), one.key)
  redis.call('SADD', status_set(one, status), moved)
  redis.call('RENAME', one.key, moved)
  redis.call('HSET', moved, 'status', cmsgpack.pack(status))
  return moved
end

-- A session's name is unique to popoto: while a failed record has it, no worker can save the next attempt under it.
local function fail(session)
  local failed = move(session, 'failed')
  redis.call('SREM', '$UniqueKeyF:AgentSession:session_id:' .. session.own, failed)
end

-- Take a record away, out of everything that lists it.
local function remove(one)
  for _, name in ipairs(sets_of(one)) do redis.call('SREM', name, one.key) end
  for _, name in ipairs(sorted_of(one)) do redis.call('ZREM', name, one.key) end
  redis.call('SREM', status_set(one, one.status), one.key)
  redis.call('DEL', one.key)
end

-- A pending job like this one: with the same fields, except the four that make it the next one.
local function repeated(one, job_id, created_at, score, context)
  local fresh = record('RedisJob:' .. job_id .. ':' .. one.project .. ':pending')
  local fields = redis.call('HGETALL', one.key)
  for at = 1, #fields, 2 do
    redis.call('HSET', fresh.key, fields[at], fields[at + 1])
  end
  redis.call('HSET', fresh.key, 'job_id', cmsgpack.pack(job_id), 'status', cmsgpack.pack('pending'),
    'created_at', created_at, 'revival_context', context)
  for _, name in ipairs(sets_of(fresh)) do
    redis.call('SADD', name, fresh.key)
  end
  redis.call('SADD', status_set(fresh, 'pending'), fresh.key)
  local sorted = false
  for _, name in ipairs(sorted_of(one)) do
    if redis.call('ZSCORE', name, one.key) then
      redis.call('ZADD', name, score, fresh.key)
      sorted = true
    end
  end
  if not sorted then
    redis.call('ZADD', '$SortF:RedisJob:created_at:' .. fresh.project, score, fresh.key)
  end
end

-- Nil if the job exists, its session too if it has a record, and no key around them is strange; else the answer.
local function fenceable(session, job)
  if not job or not exists(job.key) then return 'gone' end
  if session and not exists(session.key) then return 'gone' end
  local strange = (session and misfit(session, { session.status, 'failed' }))
    or misfit(job, { job.status, 'failed', 'pending' })
  if strange then return 'strange ' .. strange end
  return nil
end
