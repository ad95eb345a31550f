-- What an older client posts after a stream ended; the server has usually written it already.

-- `message_id` is null if the conversation is not this user's.
CREATE FUNCTION agent_upsert_message(
    p_user text, p_conversation uuid, p_client_id text, p_turn uuid, p_role text, p_content text, p_title text,
    p_now timestamptz, OUT message_id bigint, OUT created boolean
) LANGUAGE plpgsql AS $$
DECLARE
    v_client_id text := coalesce(p_client_id, 'turn:' || p_turn || ':' || p_role);
BEGIN
    created := false;
    PERFORM FROM agent_conversations c WHERE c.id = p_conversation AND c.user_id = p_user FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT m.id INTO message_id FROM agent_messages m
    WHERE m.conversation_id = p_conversation AND m.role = p_role
        AND (m.client_id = v_client_id OR m.turn_id = p_turn);
    IF message_id IS NULL THEN
        SELECT m.id INTO message_id FROM agent_messages m
        WHERE m.conversation_id = p_conversation AND m.role = p_role
            AND btrim(m.content, E' \n\r\t') = btrim(p_content, E' \n\r\t')
            AND (m.turn_id IS NOT NULL OR v_client_id IS NULL)
        ORDER BY m.id DESC LIMIT 1;
    END IF;
    IF message_id IS NOT NULL THEN
        RETURN;
    END IF;
    INSERT INTO agent_messages (conversation_id, client_id, role, content, created_at)
    VALUES (p_conversation, v_client_id, p_role, p_content, p_now)
    RETURNING id INTO message_id;
    created := true;
    UPDATE agent_conversations c SET
        title = CASE WHEN c.title = '' AND p_role = 'user' THEN p_title ELSE c.title END,
        message_count = c.message_count + 1, is_listed = true, updated_at = greatest(c.updated_at, p_now),
        last_message_at = p_now
    WHERE c.id = p_conversation;
END
$$;
