-- Search in titles and messages, Russian and English, under any locale of the database.

-- Lower case without the help of the locale, ё as е, and punctuation as space, so that "report.pdf" has two words.
CREATE FUNCTION agent_fold(value text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN translate(
    lower(value),
    'АБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯё' || E'-_./\\:;,@#+=*?!&|~^%$<>()[]{}"''`',
    'абвгдеежзийклмнопрстуфхцчшщъыьэюяе' || repeat(' ', 32)
);

-- The configuration `russian` stems Latin words as English ones. Only the start of a very long text is searched:
-- a tsvector has a size limit, and a message is indexed before its turn starts.
CREATE FUNCTION agent_words(value text) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN to_tsvector('pg_catalog.russian'::regconfig, agent_fold(left(value, 20000)));

ALTER TABLE agent_messages ADD COLUMN words tsvector GENERATED ALWAYS AS (agent_words(content)) STORED;

-- Without a pending list: its clean-up would fall on some unlucky turn's first token.
CREATE INDEX agent_messages_words ON agent_messages USING gin (words) WITH (fastupdate = off);
