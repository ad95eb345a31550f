-- Conversations, their history, and the state of the runs in them.

CREATE TABLE agent_conversations (
    id uuid PRIMARY KEY,
    user_id text NOT NULL,
    -- What the client calls it; null when that is the id.
    reference text,
    title text NOT NULL DEFAULT '',
    is_archived boolean NOT NULL DEFAULT false,
    -- False while it only holds answers to a confirmation that never was.
    is_listed boolean NOT NULL DEFAULT true,
    message_count integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    last_message_at timestamptz,
    summary text,
    -- The summary stands for messages with ids up to this one.
    summary_upto bigint
) WITH (fillfactor = 80);

CREATE INDEX agent_conversations_list ON agent_conversations (user_id, is_archived, updated_at DESC, id DESC);

-- Who runs a conversation. `epoch` grows with every take; `until` is '-infinity' when released.
CREATE TABLE leases (
    conversation_id uuid PRIMARY KEY,
    turn_id uuid NOT NULL,
    user_id text NOT NULL,
    owner text NOT NULL,
    epoch bigint NOT NULL,
    until timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE INDEX leases_user ON leases (user_id);

CREATE TABLE turns (
    turn_id uuid PRIMARY KEY,
    conversation_id uuid NOT NULL REFERENCES agent_conversations,
    user_id text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('message', 'confirm', 'deny', 'resume')),
    status text NOT NULL
        CHECK (status IN ('queued', 'running', 'completed', 'interrupted', 'cancelled', 'failed', 'rejected')),
    attempts integer NOT NULL DEFAULT 0,
    -- Events of the end, for a redelivery that finds the turn finished.
    outbox json,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz
) WITH (fillfactor = 80);

CREATE TABLE agent_messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id uuid NOT NULL REFERENCES agent_conversations,
    -- Set on what the server wrote, and only there.
    turn_id uuid,
    -- Set on what a client posted.
    client_id text,
    role text NOT NULL CHECK (role IN ('user', 'assistant')),
    content text NOT NULL,
    parts jsonb,
    finish text CHECK (finish IN ('completed', 'interrupted', 'cancelled', 'failed')),
    files jsonb,
    created_at timestamptz NOT NULL,
    UNIQUE (turn_id, role)
);

CREATE UNIQUE INDEX agent_messages_page ON agent_messages (conversation_id, id);
CREATE UNIQUE INDEX agent_messages_client ON agent_messages (conversation_id, role, client_id)
    WHERE client_id IS NOT NULL;

-- A serialized run. `json`, not `jsonb`: it comes back as it went in, so that digests of arguments stay what they were.
CREATE TABLE checkpoints (
    conversation_id uuid PRIMARY KEY REFERENCES agent_conversations,
    turn_id uuid NOT NULL,
    epoch bigint NOT NULL,
    -- Stream sequence of the last event before the save.
    cursor bigint NOT NULL,
    run json NOT NULL,
    saved_at timestamptz NOT NULL
) WITH (fillfactor = 70);

-- Journal of side effects. Keyed by conversation, since the turn that confirms executes what another one proposed.
CREATE TABLE checkpoint_writes (
    conversation_id uuid NOT NULL REFERENCES agent_conversations,
    call_id text NOT NULL,
    turn_id uuid NOT NULL,
    digest text NOT NULL,
    epoch bigint NOT NULL,
    state text NOT NULL CHECK (state IN ('intent', 'done')),
    result json,
    PRIMARY KEY (conversation_id, call_id)
);

CREATE TABLE confirmations (
    id uuid PRIMARY KEY,
    conversation_id uuid NOT NULL REFERENCES agent_conversations,
    -- The turn that asked.
    turn_id uuid NOT NULL,
    prompt text NOT NULL,
    calls json NOT NULL,
    digest text NOT NULL,
    status text NOT NULL
        CHECK (status IN ('open', 'confirmed', 'denied', 'mixed', 'expired', 'cancelled', 'superseded')),
    -- Call id -> {verdict, reason, by, turn}.
    decisions jsonb NOT NULL DEFAULT '{}',
    reason text,
    decided_by text,
    decided_turn uuid,
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    decided_at timestamptz
);

CREATE UNIQUE INDEX confirmations_open ON confirmations (conversation_id) WHERE status = 'open';
CREATE INDEX confirmations_newest ON confirmations (conversation_id, created_at DESC, id DESC);

CREATE TABLE attachments (
    id uuid PRIMARY KEY,
    conversation_id uuid NOT NULL REFERENCES agent_conversations,
    user_id text NOT NULL,
    blob text NOT NULL,
    name text NOT NULL,
    mime text NOT NULL,
    size bigint NOT NULL,
    text text NOT NULL,
    created_at timestamptz NOT NULL,
    UNIQUE (conversation_id, blob)
);

-- Outlives what it speaks of: no foreign keys.
CREATE TABLE assistant_audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    service_actor text NOT NULL,
    user_actor text NOT NULL,
    operation text NOT NULL,
    decision text NOT NULL,
    outcome text NOT NULL,
    conversation_id uuid,
    turn_id uuid,
    tool_call_id text,
    detail jsonb NOT NULL DEFAULT '{}'
);

CREATE INDEX assistant_audit_conversation ON assistant_audit (conversation_id, at);
CREATE INDEX assistant_audit_user ON assistant_audit (user_actor, at);
