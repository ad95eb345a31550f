-- Deciding a card is one compare-and-set under the lease; archiving clears what a run had left.

-- Outcome: `fenced`, `none`, `expired`, `resolved` (the card or the call has its answer), `recorded`.
CREATE FUNCTION agent_decide(
    p_conversation uuid, p_turn uuid, p_epoch bigint, p_user text, p_call text, p_verdict text, p_reason text,
    p_now timestamptz, OUT outcome text, OUT card json
) LANGUAGE plpgsql AS $$
DECLARE
    v_card confirmations%ROWTYPE;
    v_decisions jsonb;
    v_open integer;
    v_confirmed integer;
    v_denied integer;
BEGIN
    IF NOT agent_fence(p_conversation, p_epoch) THEN
        outcome := 'fenced';
        RETURN;
    END IF;
    SELECT * INTO v_card FROM confirmations c
    WHERE c.conversation_id = p_conversation AND (p_call IS NULL OR EXISTS (
        SELECT FROM json_array_elements(c.calls) e WHERE e ->> 'tool_call_id' = p_call))
    ORDER BY c.status = 'open' DESC, c.created_at DESC, c.id DESC
    LIMIT 1 FOR UPDATE;
    IF NOT FOUND THEN
        outcome := 'none';
        RETURN;
    END IF;

    -- A redelivery of the turn that decided gets its own decision again.
    IF v_card.status IN ('open', 'confirmed', 'denied', 'mixed') AND EXISTS (
        SELECT FROM jsonb_each(v_card.decisions) d
        WHERE d.value ->> 'turn' = p_turn::text AND (p_call IS NULL OR d.key = p_call)
    ) THEN
        outcome := 'recorded';
    ELSIF v_card.status IN ('expired', 'cancelled') THEN
        outcome := 'expired';
    ELSIF v_card.status <> 'open' THEN
        outcome := 'resolved';
    ELSIF v_card.expires_at <= p_now THEN
        UPDATE confirmations c SET status = 'expired', decided_turn = p_turn, decided_at = p_now WHERE c.id = v_card.id;
        outcome := 'expired';
    ELSIF v_card.decisions ? p_call THEN
        outcome := 'resolved';
    ELSE
        outcome := 'recorded';
        SELECT v_card.decisions || jsonb_object_agg(e ->> 'tool_call_id', jsonb_build_object(
                'verdict', p_verdict, 'reason', p_reason, 'by', p_user, 'turn', p_turn))
        INTO v_decisions
        FROM json_array_elements(v_card.calls) e
        WHERE NOT v_card.decisions ? (e ->> 'tool_call_id') AND (p_call IS NULL OR e ->> 'tool_call_id' = p_call);
        SELECT count(*) FILTER (WHERE NOT v_decisions ? (e ->> 'tool_call_id')),
            count(*) FILTER (WHERE v_decisions -> (e ->> 'tool_call_id') ->> 'verdict' = 'confirm'),
            count(*) FILTER (WHERE v_decisions -> (e ->> 'tool_call_id') ->> 'verdict' = 'deny')
        INTO v_open, v_confirmed, v_denied
        FROM json_array_elements(v_card.calls) e;
        UPDATE confirmations c SET
            decisions = v_decisions, reason = p_reason, decided_by = p_user, decided_turn = p_turn,
            status = CASE WHEN v_open > 0 THEN 'open' WHEN v_denied = 0 THEN 'confirmed'
                WHEN v_confirmed = 0 THEN 'denied' ELSE 'mixed' END,
            decided_at = CASE WHEN v_open = 0 THEN p_now END
        WHERE c.id = v_card.id;
    END IF;
    SELECT agent_card(c) INTO card FROM confirmations c WHERE c.id = v_card.id;
END
$$;

-- A plain message closes the open card; one that was too late anyway stays an expired one.
-- Outcome: `fenced`, `none`, `superseded`.
CREATE FUNCTION agent_supersede(
    p_conversation uuid, p_turn uuid, p_epoch bigint, p_user text, p_now timestamptz, OUT outcome text, OUT card json
) LANGUAGE plpgsql AS $$
BEGIN
    IF NOT agent_fence(p_conversation, p_epoch) THEN
        outcome := 'fenced';
        RETURN;
    END IF;
    UPDATE confirmations c SET
        status = CASE WHEN c.expires_at <= p_now THEN 'expired' ELSE 'superseded' END,
        reason = 'superseded', decided_by = p_user, decided_turn = p_turn, decided_at = p_now
    WHERE c.conversation_id = p_conversation AND c.status = 'open';
    SELECT agent_card(c) INTO card FROM confirmations c
    WHERE c.conversation_id = p_conversation AND c.reason = 'superseded' AND c.decided_turn = p_turn;
    outcome := CASE WHEN FOUND THEN 'superseded' ELSE 'none' END;
END
$$;

-- Outcome: `not_found`, `live` (nothing is changed, unless forced), `done`.
CREATE FUNCTION agent_archive(
    p_user text, p_conversation uuid, p_now timestamptz, p_force boolean, OUT outcome text, OUT live_turn uuid
) LANGUAGE plpgsql AS $$
DECLARE
    v_archived boolean;
BEGIN
    SELECT c.is_archived INTO v_archived FROM agent_conversations c
    WHERE c.id = p_conversation AND c.user_id = p_user FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        outcome := 'not_found';
        RETURN;
    END IF;
    SELECT CASE WHEN l.until > clock_timestamp() THEN l.turn_id END INTO live_turn FROM leases l
    WHERE l.conversation_id = p_conversation FOR NO KEY UPDATE;
    IF live_turn IS NOT NULL AND NOT p_force THEN
        outcome := 'live';
        RETURN;
    END IF;
    -- Whoever held the lease last, even if it only ran out, writes nothing from here on.
    UPDATE leases l SET epoch = agent_new_epoch(l.epoch), until = '-infinity' WHERE l.conversation_id = p_conversation;
    DELETE FROM checkpoints k WHERE k.conversation_id = p_conversation;
    DELETE FROM checkpoint_writes w WHERE w.conversation_id = p_conversation;
    UPDATE confirmations c SET
        status = 'cancelled', reason = 'archived', decided_by = p_user, decided_at = p_now
    WHERE c.conversation_id = p_conversation AND c.status = 'open';
    IF NOT v_archived THEN
        UPDATE agent_conversations c SET is_archived = true, updated_at = greatest(c.updated_at, p_now)
        WHERE c.id = p_conversation;
    END IF;
    outcome := 'done';
END
$$;
