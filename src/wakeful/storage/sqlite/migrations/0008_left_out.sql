-- How many changes of a flapping session were not stored, between this transition and the one before it.
ALTER TABLE transitions ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;
