"""Version 2: which keeper may change rounds, and which copies of the keyring have every change that was answered."""

from alembic import op

revision = "shuffler_2"
down_revision = "shuffler_1"

_TABLES = """
-- The term of the keeper that acts now, and 16 random bytes of it; whoever takes over raises it.
CREATE TABLE keeper (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    term bigint NOT NULL,
    holder bytea NOT NULL
);
INSERT INTO keeper (term, holder) VALUES (0, '');
-- The copies of the keyring that may keep rounds: each has every change that was answered. None: the keyring itself.
CREATE TABLE member (copy bytea PRIMARY KEY);
CREATE FUNCTION only_rises() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
        IF TG_OP <> 'UPDATE' OR NEW.term <= OLD.term THEN RAISE EXCEPTION 'the term only rises'; END IF;
        RETURN NEW;
    END $$;
CREATE TRIGGER term_rises BEFORE UPDATE OR DELETE ON keeper FOR EACH ROW EXECUTE FUNCTION only_rises();
"""


def upgrade() -> None:
    """Make the tables."""
    op.execute(_TABLES)
