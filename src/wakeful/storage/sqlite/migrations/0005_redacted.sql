-- Earlier versions knew fewer kinds of secrets, and kept calls and errors as they were. Bookmarks cost reading a log again.
DELETE FROM bookmarks;

UPDATE transitions SET record = redacted(record) WHERE redacted(record) IS NOT record;

UPDATE outbox SET payload = redacted(payload) WHERE redacted(payload) IS NOT payload;

-- What people are shown. Notes that are run again (turns of a chat, orders by key) stay whole.
UPDATE notes SET body = redacted(body)
WHERE kind IN ('alert', 'incident', 'trouble', 'issue_owed', 'issue_trouble', 'checkpoint', 'wake', 'revival')
AND redacted(body) IS NOT body;

UPDATE intents SET outcome_reason = redacted(outcome_reason) WHERE redacted(outcome_reason) IS NOT outcome_reason;

UPDATE attempts SET result = redacted(result) WHERE redacted(result) IS NOT result;
