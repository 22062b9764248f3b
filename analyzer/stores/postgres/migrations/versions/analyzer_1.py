"""Creates the tables of tasks, rounds, batches, certificates, ledger, chain and feed; a round's own comes with it."""

from alembic import op

revision = "analyzer_1"
down_revision = None

_TABLES = """
-- Which keyring the store belongs to.
CREATE TABLE keyring (id bytea NOT NULL);
CREATE TABLE task (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id bytea NOT NULL UNIQUE,
    name text NOT NULL,
    queries integer NOT NULL,
    document bytea NOT NULL
);
-- A round with its key record. destroyed: its secrets are, or are about to be. stored: its table of envelopes is there.
CREATE TABLE round (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task bigint NOT NULL REFERENCES task,
    number bigint NOT NULL,
    record bytea NOT NULL,
    signature bytea NOT NULL,
    not_after bigint NOT NULL,
    key_set_hash bytea,
    destroyed boolean NOT NULL DEFAULT false,
    stored boolean NOT NULL DEFAULT true,
    UNIQUE (task, number)
);
-- counts are sealed until the round is certified.
CREATE TABLE batch (
    round bigint NOT NULL REFERENCES round,
    query integer NOT NULL,
    record bytea NOT NULL,
    signature bytea NOT NULL,
    reports bigint NOT NULL,
    dummies bigint NOT NULL,
    digest bytea NOT NULL,
    next_offset bigint NOT NULL DEFAULT 0,
    valid bigint,
    left_out text,
    counts bytea,
    attestation bytea,
    PRIMARY KEY (round, query)
);
-- Keys rise in the order in which rounds were certified.
CREATE TABLE certificate (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    round bigint NOT NULL UNIQUE REFERENCES round,
    document bytea NOT NULL
);
-- The status of each round: its task, how many of its batches were announced and counted, whether it is certified.
CREATE VIEW round_status AS SELECT
    round.key, task.key AS task, task.id, name, number, queries,
    round.record, round.signature, not_after, key_set_hash, destroyed, stored,
    (SELECT count(*) FROM batch WHERE batch.round = round.key) AS announced,
    (SELECT count(*) FROM batch WHERE batch.round = round.key AND valid IS NOT NULL) AS counted,
    (SELECT certificate.key FROM certificate WHERE certificate.round = round.key) AS certified
FROM round JOIN task ON task.key = round.task;
-- What each task has spent, and what was released of it: chains of digests, only ever added to.
CREATE TABLE ledger (
    task bytea NOT NULL, position bigint NOT NULL, entry text NOT NULL, digest text NOT NULL,
    PRIMARY KEY (task, position)
);
CREATE TABLE chain (
    task bytea NOT NULL, position bigint NOT NULL, entry text NOT NULL, head text NOT NULL,
    PRIMARY KEY (task, position)
);
-- What was taken of the feed of tasks: signed entries, only ever added to.
CREATE TABLE feed (number bigint PRIMARY KEY, entry bytea NOT NULL);
CREATE FUNCTION only_grows() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the % only grows', TG_TABLE_NAME; END $$;
CREATE TRIGGER ledger_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger
    FOR EACH STATEMENT EXECUTE FUNCTION only_grows();
CREATE TRIGGER chain_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON chain
    FOR EACH STATEMENT EXECUTE FUNCTION only_grows();
CREATE TRIGGER feed_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON feed
    FOR EACH STATEMENT EXECUTE FUNCTION only_grows();
"""


def upgrade() -> None:
    """Create the tables."""
    op.execute(_TABLES)
