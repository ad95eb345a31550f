-- What came out of an upload, by sections, or why nothing did; and the picture, if it is one. The rows of the
-- previous release have neither.
ALTER TABLE attachments ADD COLUMN extraction jsonb, ADD COLUMN image text;
