-- Search that costs what one user's words cost, however much others have written.

-- Titles are searched row by row: their words and folded form are kept, not made anew for every row.
ALTER TABLE agent_conversations
    ADD COLUMN title_words tsvector GENERATED ALWAYS AS (agent_words(title)) STORED,
    ADD COLUMN title_folded text GENERATED ALWAYS AS (agent_fold(title)) STORED;

-- The words of one message, each behind its user's key: the index holds every user's words apart, so that the start
-- of a word that others use a lot costs no more than this user's own. Rows are narrow, with the words stored apart:
-- a common word visits many rows and reads none of them whole.
CREATE TABLE message_search (
    message_id bigint PRIMARY KEY REFERENCES agent_messages ON DELETE CASCADE,
    conversation_id uuid NOT NULL,
    words tsvector NOT NULL
) WITH (toast_tuple_target = 128);
ALTER TABLE message_search ALTER COLUMN words SET STORAGE EXTERNAL;

-- Two users may share a key: it narrows a search down and grants nothing.
CREATE FUNCTION agent_user_key(p_user text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN left(md5(p_user), 8);

-- A tsvector takes no word of 2 KiB.
CREATE FUNCTION agent_user_words(p_user text, p_words tsvector) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN (SELECT array_to_tsvector(coalesce(array_agg(agent_user_key(p_user) || word), '{}'))
    FROM unnest(tsvector_to_array(p_words)) AS word WHERE octet_length(word) < 2000);

-- Words of a query in its printed form stand in quotes. They hold letters and digits only, since the gateway splits
-- at all else; where Postgres splits further it asks for places, which are not kept.
CREATE FUNCTION agent_user_query(p_user text, p_query text) RETURNS tsquery
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN regexp_replace(
    replace(to_tsquery('pg_catalog.russian', p_query)::text, '<->', '&'),
    '''([^'']+)''', '''' || agent_user_key(p_user) || '\1''', 'g')::tsquery;

-- A trigger, since the previous release writes messages, too.
CREATE FUNCTION agent_index_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO message_search AS s (message_id, conversation_id, words)
    SELECT NEW.id, NEW.conversation_id, agent_user_words(c.user_id, NEW.words)
    FROM agent_conversations c WHERE c.id = NEW.conversation_id
    ON CONFLICT (message_id) DO UPDATE SET words = excluded.words;
    RETURN NULL;
END
$$;

CREATE TRIGGER agent_messages_search AFTER INSERT OR UPDATE OF content ON agent_messages
    FOR EACH ROW EXECUTE FUNCTION agent_index_message();

INSERT INTO message_search (message_id, conversation_id, words)
SELECT m.id, m.conversation_id, agent_user_words(c.user_id, m.words)
FROM agent_messages m JOIN agent_conversations c ON c.id = m.conversation_id
ON CONFLICT (message_id) DO NOTHING;

-- Without a pending list: its clean-up would fall on some unlucky turn's first token.
CREATE INDEX message_search_words ON message_search USING gin (words) WITH (fastupdate = off);
-- The previous release searches without it, only slower.
DROP INDEX agent_messages_words;
