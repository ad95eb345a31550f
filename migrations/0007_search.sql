-- Search that costs what one user's words cost, however much others have written.

-- Titles are searched row by row: their words and folded form are kept, not made anew for every row.
ALTER TABLE agent_conversations
    ADD COLUMN title_words tsvector GENERATED ALWAYS AS (agent_words(title)) STORED,
    ADD COLUMN title_folded text GENERATED ALWAYS AS (agent_fold(title)) STORED;

-- The words of one message and a word for its user, so that the index itself leaves other users' messages out.
-- Rows are narrow, with the words stored apart: a common word visits many rows and reads none of them whole.
CREATE TABLE message_search (
    message_id bigint PRIMARY KEY REFERENCES agent_messages ON DELETE CASCADE,
    conversation_id uuid NOT NULL,
    words tsvector NOT NULL
) WITH (toast_tuple_target = 128);
ALTER TABLE message_search ALTER COLUMN words SET STORAGE EXTERNAL;

CREATE FUNCTION agent_user_word(p_user text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN 'u' || md5(p_user);

-- A trigger, since the previous release writes messages, too.
CREATE FUNCTION agent_index_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO message_search AS s (message_id, conversation_id, words)
    SELECT NEW.id, NEW.conversation_id, strip(NEW.words) || array_to_tsvector(ARRAY[agent_user_word(c.user_id)])
    FROM agent_conversations c WHERE c.id = NEW.conversation_id
    ON CONFLICT (message_id) DO UPDATE SET words = excluded.words;
    RETURN NULL;
END
$$;

CREATE TRIGGER agent_messages_search AFTER INSERT OR UPDATE OF content ON agent_messages
    FOR EACH ROW EXECUTE FUNCTION agent_index_message();

INSERT INTO message_search (message_id, conversation_id, words)
SELECT m.id, m.conversation_id, strip(m.words) || array_to_tsvector(ARRAY[agent_user_word(c.user_id)])
FROM agent_messages m JOIN agent_conversations c ON c.id = m.conversation_id
ON CONFLICT (message_id) DO NOTHING;

-- Without a pending list: its clean-up would fall on some unlucky turn's first token.
CREATE INDEX message_search_words ON message_search USING gin (words) WITH (fastupdate = off);
-- The previous release searches without it, only slower.
DROP INDEX agent_messages_words;
