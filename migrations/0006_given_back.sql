-- An attempt that gives its turn back has not died: a deploy, or a store that is down, makes no job poisonous.
-- `attempts` goes on numbering all of them.

ALTER TABLE turns ADD COLUMN given_back integer NOT NULL DEFAULT 0;

-- Gives the conversation free at once. False: the lease is no longer the caller's, and nothing is changed.
CREATE FUNCTION agent_give_back(p_conversation uuid, p_epoch bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_turn uuid;
BEGIN
    UPDATE leases l SET until = '-infinity'
    WHERE l.conversation_id = p_conversation AND l.epoch = p_epoch AND l.until > '-infinity'
    RETURNING l.turn_id INTO v_turn;
    UPDATE turns t SET given_back = t.given_back + 1 WHERE t.turn_id = v_turn;
    RETURN v_turn IS NOT NULL;
END
$$;

-- The same for a lease whose epoch never reached the worker that took it, as the answer got lost.
CREATE FUNCTION agent_give_back_unheard(p_conversation uuid, p_turn uuid, p_owner text) RETURNS boolean
LANGUAGE sql AS $$
    SELECT coalesce((
        SELECT agent_give_back(l.conversation_id, l.epoch) FROM leases l
        WHERE l.conversation_id = p_conversation AND l.turn_id = p_turn AND l.owner = p_owner
    ), false)
$$;

-- As before, but only attempts that died count towards the last one, a turn that has begun is not refused for its
-- user's other turns, and a poisoned turn comes with its checkpoint.
CREATE OR REPLACE FUNCTION agent_begin_turn(
    p_turn uuid, p_conversation uuid, p_reference text, p_user text, p_kind text, p_text text, p_files jsonb,
    p_title text, p_owner text, p_ttl_ms bigint, p_max_attempts integer, p_turns_per_user integer,
    p_history_rows integer, p_now timestamptz,
    OUT outcome text, OUT lease_epoch bigint, OUT attempt integer, OUT is_new boolean,
    OUT saved_turn uuid, OUT saved_run json, OUT saved_cursor bigint, OUT card json,
    OUT summary_text text, OUT summary_end bigint, OUT history json, OUT events json
) LANGUAGE plpgsql AS $$
DECLARE
    v_conversation agent_conversations%ROWTYPE;
    v_turn turns%ROWTYPE;
    v_until timestamptz;
    v_given_back integer;
    v_message boolean := p_kind = 'message';
BEGIN
    -- Nobody waits for the disk here: until the turn's next commit, which flushes this one too, its job can
    -- come back and write the same again.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- One turn of a user begins at a time, so that the count of live ones below stays true.
    PERFORM pg_advisory_xact_lock(hashtextextended(p_user, 1635083369));
    SELECT * INTO v_conversation FROM agent_conversations c WHERE c.id = p_conversation FOR NO KEY UPDATE;
    is_new := NOT FOUND;
    IF v_conversation.user_id <> p_user THEN
        outcome := 'not_owner';
        RETURN;
    END IF;

    SELECT l.until INTO v_until FROM leases l WHERE l.conversation_id = p_conversation FOR NO KEY UPDATE;
    SELECT * INTO v_turn FROM turns t WHERE t.turn_id = p_turn;
    IF v_turn.conversation_id <> p_conversation THEN
        outcome := 'not_owner';
        RETURN;
    END IF;
    IF v_turn.finished_at IS NOT NULL THEN
        outcome := 'finished';
        events := v_turn.outbox;
        RETURN;
    END IF;
    IF v_until > clock_timestamp() THEN
        outcome := 'lease_held';
        RETURN;
    END IF;
    IF v_conversation.is_archived THEN
        outcome := 'archived';
        RETURN;
    END IF;
    -- A turn that has begun goes on, whatever its user has started since.
    IF v_turn.turn_id IS NULL AND p_turns_per_user <= (
        SELECT count(*) FROM leases l
        WHERE l.user_id = p_user AND l.conversation_id <> p_conversation AND l.until > clock_timestamp()
    ) THEN
        outcome := 'user_busy';
        RETURN;
    END IF;

    IF is_new THEN
        INSERT INTO agent_conversations AS c
            (id, user_id, reference, title, is_listed, message_count, created_at, updated_at, last_message_at)
        VALUES (p_conversation, p_user, p_reference, CASE WHEN v_message THEN p_title ELSE '' END, v_message,
            v_message::integer, p_now, p_now, CASE WHEN v_message THEN p_now END)
        ON CONFLICT (id) DO NOTHING;
        IF NOT FOUND THEN
            -- Somebody made it this instant: ask again.
            outcome := 'lease_held';
            RETURN;
        END IF;
    END IF;

    INSERT INTO leases AS l (conversation_id, turn_id, user_id, owner, epoch, until)
    VALUES (p_conversation, p_turn, p_user, p_owner, agent_new_epoch(0),
        clock_timestamp() + p_ttl_ms * interval '1 millisecond')
    ON CONFLICT (conversation_id) DO UPDATE SET
        turn_id = excluded.turn_id, user_id = excluded.user_id, owner = excluded.owner,
        epoch = agent_new_epoch(l.epoch), until = excluded.until
    RETURNING l.epoch INTO lease_epoch;
    INSERT INTO turns AS t (turn_id, conversation_id, user_id, kind, status, attempts, created_at, started_at)
    VALUES (p_turn, p_conversation, p_user, p_kind, 'running', 1, p_now, p_now)
    ON CONFLICT (turn_id) DO UPDATE SET
        status = 'running', attempts = t.attempts + 1, started_at = coalesce(t.started_at, p_now)
    RETURNING t.attempts, t.given_back INTO attempt, v_given_back;
    outcome := CASE WHEN attempt - v_given_back > p_max_attempts THEN 'poisoned' ELSE 'started' END;

    IF v_message AND outcome = 'started' THEN
        INSERT INTO agent_messages (conversation_id, turn_id, role, content, files, created_at)
        VALUES (p_conversation, p_turn, 'user', p_text, p_files, p_now)
        ON CONFLICT (turn_id, role) DO NOTHING;
        IF FOUND AND NOT is_new THEN
            UPDATE agent_conversations c SET
                title = CASE WHEN c.title = '' THEN p_title ELSE c.title END, is_listed = true,
                message_count = c.message_count + 1, updated_at = greatest(c.updated_at, p_now),
                last_message_at = p_now
            WHERE c.id = p_conversation;
        END IF;
    END IF;
    IF is_new THEN
        RETURN;
    END IF;

    SELECT k.turn_id, k.run, k.cursor INTO saved_turn, saved_run, saved_cursor
    FROM checkpoints k WHERE k.conversation_id = p_conversation;
    IF outcome = 'poisoned' THEN
        RETURN;
    END IF;
    SELECT agent_card(c) INTO card FROM confirmations c
    WHERE c.conversation_id = p_conversation AND c.status = 'open';
    summary_text := v_conversation.summary;
    summary_end := v_conversation.summary_upto;
    history := agent_history(p_conversation, coalesce(summary_end, 0), p_turn, p_history_rows);
END
$$;
