-- Alerts that must be sent are notes. Nothing wrote to this table or read it.
DROP TABLE outbox;
