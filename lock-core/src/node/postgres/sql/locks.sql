-- What locks need in a database: a schema with its tables. `connect()` creates them if its user may. Otherwise somebody who may runs
-- this file once, and then, for the user of the service:
--
--   GRANT USAGE ON SCHEMA locks TO app;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA locks TO app;
--
-- All times are on the clock of the server (`clock_timestamp()`). Several managers can use the tables, each with keys under its own prefix.
--
-- The first tables are the ledger: who holds what, with which token. None of them may be lost alone. The next are the waiting room, which
-- may be lost, and the name of the memory (`run`). Unlogged ones are empty after a crash, an immediate stop, the promotion of a standby, and
-- a restored base backup; a clean restart keeps them. So locks are lost together with the name of the memory: a server that lost it
-- forgot, and grants nothing before they are over. What is logged, such as the tokens, has to outlive that.

CREATE SCHEMA IF NOT EXISTS locks;

-- The record of the node, and what each of its fences is at least.
CREATE TABLE IF NOT EXISTS locks.node (
  keyspace text COLLATE "C" PRIMARY KEY,
  member text NOT NULL, version text NOT NULL, run_id text NOT NULL, format text NOT NULL, was text NOT NULL, roster text NOT NULL,
  previous text NOT NULL, promised text NOT NULL, accepted text NOT NULL, quarantines text NOT NULL, epoch text NOT NULL,
  floor bigint NOT NULL
);

-- What the token of each fence is at most: at most 16,385 rows for each keyspace. It is written before a token exceeds it, and then it
-- is some tokens ahead: so most grants write nothing that has to be on disk before they count.
CREATE TABLE IF NOT EXISTS locks.fence (
  keyspace text COLLATE "C", fence integer, token bigint NOT NULL,
  PRIMARY KEY (keyspace, fence)
) WITH (fillfactor = 50, vacuum_truncate = false);

-- What it is, and at most may become before `fence` is written; and whether that was on disk when this row could first be read, which it
-- was not if a session wrote it that does not wait for the disk. Where there is no row, it is what `fence` says.
CREATE UNLOGGED TABLE IF NOT EXISTS locks.counter (
  keyspace text COLLATE "C", fence integer, token bigint NOT NULL, most bigint NOT NULL, is_on_disk boolean NOT NULL,
  PRIMARY KEY (keyspace, fence)
) WITH (fillfactor = 50, vacuum_truncate = false);

-- Who holds a lock, and until when. Without an owner, readers do. A row whose time is over is nobody's.
CREATE UNLOGGED TABLE IF NOT EXISTS locks.lock (
  key text COLLATE "C" PRIMARY KEY, owner uuid, expires timestamptz NOT NULL
) WITH (fillfactor = 50, vacuum_truncate = false);

-- The readers of a lock. They count only while the lock has no owner.
CREATE UNLOGGED TABLE IF NOT EXISTS locks.reader (
  key text COLLATE "C", owner uuid, expires timestamptz NOT NULL,
  PRIMARY KEY (key, owner)
) WITH (fillfactor = 50, vacuum_truncate = false);

-- The tombstones: who was evicted from a lock, and cannot have it again.
CREATE TABLE IF NOT EXISTS locks.evicted (
  key text COLLATE "C" PRIMARY KEY, owners uuid[] NOT NULL, until timestamptz NOT NULL
);

-- The queues. They and the reservations decide for whom a free lock is kept, never who holds it. The key of a queue is that of its
-- lock; all slots of a resource have one queue. Of those that wait for a slot: from how many of them they choose; and of those that may take
-- one, since when, and what they were told.
CREATE UNLOGGED TABLE IF NOT EXISTS locks.queue (
  key text COLLATE "C" PRIMARY KEY, expires timestamptz NOT NULL
) WITH (fillfactor = 50, vacuum_truncate = false);
CREATE UNLOGGED TABLE IF NOT EXISTS locks.waiter (
  key text COLLATE "C", since bigint NOT NULL, reads boolean NOT NULL, polls boolean NOT NULL, waiter uuid,
  permits integer NOT NULL DEFAULT 0, called timestamptz, offer text,
  PRIMARY KEY (key, waiter)
) WITH (fillfactor = 50, vacuum_truncate = false);
CREATE INDEX IF NOT EXISTS waiter_order ON locks.waiter (key, since, reads, polls, waiter);
-- The waiters for which a free lock is reserved, one after another; whether each knows of it; and those
-- that let theirs pass, but were heard of later.
CREATE UNLOGGED TABLE IF NOT EXISTS locks.reservation (
  key text COLLATE "C" PRIMARY KEY, began timestamptz NOT NULL, waiters uuid[] NOT NULL, knows boolean[] NOT NULL,
  late uuid[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50, vacuum_truncate = false);
-- While readers hold a lock: when each writer that waits was last heard of.
CREATE UNLOGGED TABLE IF NOT EXISTS locks.heard (
  key text COLLATE "C", waiter uuid, at timestamptz NOT NULL,
  PRIMARY KEY (key, waiter)
) WITH (fillfactor = 50, vacuum_truncate = false);

-- One row, which names the memory of this database. It is written by the first who finds none.
CREATE UNLOGGED TABLE IF NOT EXISTS locks.run (one boolean PRIMARY KEY CHECK (one), id uuid NOT NULL);
