"""Creates the tables of rounds, counts, batches, ledger, chain, feed and leader; a round's own tables come with it."""

from alembic import op

revision = "shuffler_1"
down_revision = None

_TABLES = """
-- Which keyring the store belongs to, and how many of its changes were answered.
CREATE TABLE keyring (id bytea NOT NULL, changes bigint NOT NULL DEFAULT 0);
CREATE TABLE round (
    key bigint PRIMARY KEY,
    task bytea NOT NULL,
    number bigint NOT NULL,
    state text NOT NULL,
    held bigint NOT NULL DEFAULT 0,
    submissions bigint NOT NULL DEFAULT 0,
    closed_by text,
    refusals text NOT NULL DEFAULT '{}',
    reason text NOT NULL DEFAULT '',
    shuffler_body bytea,
    shuffler_signature bytea,
    analyzer_body bytea,
    analyzer_signature bytea,
    UNIQUE (task, number)
);
CREATE TABLE tally (
    task bytea NOT NULL, number bigint NOT NULL, name text NOT NULL, count bigint NOT NULL,
    PRIMARY KEY (task, number, name)
);
CREATE TABLE batch (
    round bigint NOT NULL REFERENCES round (key),
    query integer NOT NULL,
    digest bytea NOT NULL,
    body bytea NOT NULL,
    signature bytea NOT NULL,
    committed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (round, query)
);
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
-- The term of the current leader, and 16 random bytes of it; the next leader raises it.
CREATE TABLE leader (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    term bigint NOT NULL,
    holder bytea NOT NULL
);
INSERT INTO leader (term, holder) VALUES (0, '');
-- The copies of the keyring that may keep rounds: each has every change that was answered. None: the keyring itself.
CREATE TABLE member (copy bytea PRIMARY KEY);
CREATE FUNCTION only_rises() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
        IF TG_OP <> 'UPDATE' OR NEW.term <= OLD.term THEN RAISE EXCEPTION 'the term only rises'; END IF;
        RETURN NEW;
    END $$;
CREATE TRIGGER term_rises BEFORE UPDATE OR DELETE ON leader FOR EACH ROW EXECUTE FUNCTION only_rises();
"""


def upgrade() -> None:
    """Create the tables."""
    op.execute(_TABLES)
