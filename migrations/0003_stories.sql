-- Stories of several statements that must be one round trip and one transaction. Lock order: see README.md.

CREATE FUNCTION agent_card(c confirmations) RETURNS json LANGUAGE sql STABLE
RETURN json_build_object(
    'id', c.id, 'turn_id', c.turn_id, 'prompt', c.prompt, 'calls', c.calls, 'digest', c.digest, 'status', c.status,
    'decisions', c.decisions, 'reason', c.reason, 'created_at', c.created_at, 'expires_at', c.expires_at
);

-- Takes the lease row for writing. False: the caller's epoch is not the one that holds it.
CREATE FUNCTION agent_fence(p_conversation uuid, p_epoch bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM leases l
    WHERE l.conversation_id = p_conversation AND l.epoch = p_epoch AND l.until > '-infinity'
    FOR NO KEY UPDATE;
    RETURN FOUND;
END
$$;

CREATE FUNCTION agent_history(p_conversation uuid, p_after bigint, p_without uuid, p_rows integer) RETURNS json
LANGUAGE sql STABLE
RETURN (
    SELECT json_agg(json_build_object(
        'id', m.id, 'turn_id', m.turn_id, 'role', m.role, 'content', m.content, 'parts', m.parts,
        'finish', m.finish, 'files', m.files) ORDER BY m.id)
    FROM (
        SELECT * FROM agent_messages a
        WHERE a.conversation_id = p_conversation AND a.id > p_after AND a.turn_id IS DISTINCT FROM p_without
        ORDER BY a.id DESC LIMIT p_rows
    ) m
);

-- Larger than the last one, and than any that a crash of the server may have lost with it.
CREATE FUNCTION agent_new_epoch(p_last bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT greatest(p_last + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- Starts a turn, or goes on with it. Unless the outcome is `started` or `poisoned`, nothing is written.
CREATE FUNCTION agent_begin_turn(
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
    IF p_turns_per_user <= (
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
    RETURNING t.attempts INTO attempt;
    IF attempt > p_max_attempts THEN
        outcome := 'poisoned';
        RETURN;
    END IF;
    outcome := 'started';

    IF v_message THEN
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
    SELECT agent_card(c) INTO card FROM confirmations c
    WHERE c.conversation_id = p_conversation AND c.status = 'open';
    summary_text := v_conversation.summary;
    summary_end := v_conversation.summary_upto;
    history := agent_history(p_conversation, coalesce(summary_end, 0), p_turn, p_history_rows);
END
$$;

-- All that a step changes. False: fenced, nothing is written.
CREATE FUNCTION agent_commit_turn(
    p_conversation uuid, p_turn uuid, p_epoch bigint, p_now timestamptz, p_run_change text, p_run json, p_cursor bigint,
    p_text text, p_parts jsonb, p_finish text, p_append_turn uuid, p_append_parts jsonb, p_card json,
    p_status text, p_outbox json, p_audit jsonb, p_release boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF p_text IS NOT NULL THEN
        PERFORM FROM agent_conversations c WHERE c.id = p_conversation FOR NO KEY UPDATE;
    END IF;
    IF NOT agent_fence(p_conversation, p_epoch) THEN
        RETURN false;
    END IF;

    IF p_run_change = 'save' THEN
        INSERT INTO checkpoints AS k (conversation_id, turn_id, epoch, cursor, run, saved_at)
        VALUES (p_conversation, p_turn, p_epoch, p_cursor, p_run, p_now)
        ON CONFLICT (conversation_id) DO UPDATE SET
            turn_id = excluded.turn_id, epoch = excluded.epoch, cursor = excluded.cursor, run = excluded.run,
            saved_at = excluded.saved_at;
    ELSIF p_run_change = 'clear' THEN
        DELETE FROM checkpoints k WHERE k.conversation_id = p_conversation;
        DELETE FROM checkpoint_writes w WHERE w.conversation_id = p_conversation;
    END IF;

    IF p_text IS NOT NULL THEN
        UPDATE agent_messages m SET content = p_text, parts = p_parts, finish = p_finish
        WHERE m.turn_id = p_turn AND m.role = 'assistant';
        IF NOT FOUND THEN
            INSERT INTO agent_messages (conversation_id, turn_id, role, content, parts, finish, created_at)
            VALUES (p_conversation, p_turn, 'assistant', p_text, p_parts, p_finish, p_now);
            UPDATE agent_conversations c SET
                message_count = c.message_count + 1, updated_at = greatest(c.updated_at, p_now),
                last_message_at = p_now
            WHERE c.id = p_conversation;
        END IF;
    END IF;
    IF p_append_turn IS NOT NULL THEN
        UPDATE agent_messages m SET parts = coalesce(m.parts, '[]') || p_append_parts
        WHERE m.turn_id = p_append_turn AND m.role = 'assistant' AND m.conversation_id = p_conversation;
    END IF;

    IF p_card IS NOT NULL THEN
        INSERT INTO confirmations
            (id, conversation_id, turn_id, prompt, calls, digest, status, expires_at, created_at)
        VALUES ((p_card ->> 'id')::uuid, p_conversation, p_turn, p_card ->> 'prompt', p_card -> 'calls',
            p_card ->> 'digest', 'open', (p_card ->> 'expires_at')::timestamptz, p_now)
        ON CONFLICT (id) DO NOTHING;
    END IF;
    IF p_status IS NOT NULL THEN
        UPDATE turns t SET status = p_status, outbox = p_outbox, finished_at = p_now WHERE t.turn_id = p_turn;
    END IF;
    IF p_audit IS NOT NULL THEN
        PERFORM agent_audit(p_audit);
    END IF;
    IF p_release THEN
        UPDATE leases l SET until = '-infinity' WHERE l.conversation_id = p_conversation;
    END IF;
    RETURN true;
END
$$;

CREATE FUNCTION agent_audit(p_rows jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO assistant_audit (at, service_actor, user_actor, operation, decision, outcome, conversation_id, turn_id,
        tool_call_id, detail)
    SELECT a.at, a.service_actor, a.user_actor, a.operation, a.decision, a.outcome, a.conversation_id, a.turn_id,
        a.tool_call_id, a.detail
    FROM jsonb_to_recordset(p_rows) AS a(at timestamptz, service_actor text, user_actor text, operation text,
        decision text, outcome text, conversation_id uuid, turn_id uuid, tool_call_id text, detail jsonb)
$$;

-- Intent of a side effect: `new`, `unfinished`, `done` or `fenced`.
CREATE FUNCTION agent_journal_begin(
    p_conversation uuid, p_turn uuid, p_epoch bigint, p_call text, p_digest text, OUT outcome text, OUT saved_result json
) LANGUAGE plpgsql AS $$
DECLARE
    v_write checkpoint_writes%ROWTYPE;
BEGIN
    IF NOT agent_fence(p_conversation, p_epoch) THEN
        outcome := 'fenced';
        RETURN;
    END IF;
    SELECT * INTO v_write FROM checkpoint_writes w WHERE w.conversation_id = p_conversation AND w.call_id = p_call;
    IF v_write.state = 'done' AND v_write.digest = p_digest THEN
        outcome := 'done';
        saved_result := v_write.result;
        RETURN;
    END IF;
    outcome := CASE WHEN v_write.state = 'intent' THEN 'unfinished' ELSE 'new' END;
    INSERT INTO checkpoint_writes AS w (conversation_id, call_id, turn_id, digest, epoch, state)
    VALUES (p_conversation, p_call, p_turn, p_digest, p_epoch, 'intent')
    ON CONFLICT (conversation_id, call_id) DO UPDATE SET
        turn_id = excluded.turn_id, digest = excluded.digest, epoch = excluded.epoch, state = 'intent', result = NULL;
END
$$;

-- Result of a side effect: `ok`, `fenced`, or `absent` when there is no intent. The first result stays.
CREATE FUNCTION agent_journal_finish(p_conversation uuid, p_epoch bigint, p_call text, p_digest text, p_result json)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF NOT agent_fence(p_conversation, p_epoch) THEN
        RETURN 'fenced';
    END IF;
    UPDATE checkpoint_writes w SET
        state = 'done', epoch = p_epoch, result = CASE WHEN w.state = 'done' THEN w.result ELSE p_result END
    WHERE w.conversation_id = p_conversation AND w.call_id = p_call AND w.digest = p_digest;
    RETURN CASE WHEN FOUND THEN 'ok' ELSE 'absent' END;
END
$$;
