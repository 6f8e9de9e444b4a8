-- Removes what expired more than a minute ago, and that nobody has asked for since, from a part of each table: the 32 pages from this
-- one on. So it takes milliseconds also if there are millions of rows, or of dead ones. (Before version 14, a part of a table cannot
-- be read: all of it is, and at most so many rows are removed.) It waits for nobody: what is locked, others use or remove.
-- Returns the page to go on with, or 0 after the last one; and, with the first one, whether a snapshot is as old as the sweep before:
-- rows that were deleted or replaced since then cannot be removed. Those of prepared transactions and replication slots are not seen.
CREATE FUNCTION pg_temp.lock_sweep(session text, page bigint, OUT next_page bigint, OUT has_old_snapshot boolean) LANGUAGE plpgsql AS $$
DECLARE
  long_ago timestamptz := clock_timestamp() - interval '1 minute';
  begin_at tid; end_at tid; pages bigint;
  last_sweep text := current_setting('locks.last_sweep', true); next_transaction bigint := txid_snapshot_xmax(txid_current_snapshot());
BEGIN
  PERFORM pg_temp.lock_check_session(session);
  next_page := CASE WHEN current_setting('server_version_num')::integer >= 140000 THEN page + 32 ELSE 4294967295 END;
  begin_at := format('(%s,0)', page)::tid; end_at := format('(%s,0)', next_page)::tid;
  DELETE FROM locks.lock d WHERE d.ctid = ANY (ARRAY(
    SELECT l.ctid FROM locks.lock l
      WHERE l.ctid >= begin_at AND l.ctid < end_at AND l.expires < long_ago LIMIT 10000 FOR UPDATE SKIP LOCKED));
  DELETE FROM locks.reader d WHERE d.ctid = ANY (ARRAY(
    SELECT r.ctid FROM locks.reader r
      WHERE r.ctid >= begin_at AND r.ctid < end_at AND r.expires < long_ago LIMIT 10000 FOR UPDATE SKIP LOCKED));
  DELETE FROM locks.evicted d WHERE d.ctid = ANY (ARRAY(
    SELECT e.ctid FROM locks.evicted e
      WHERE e.ctid >= begin_at AND e.ctid < end_at AND e.until < long_ago LIMIT 10000 FOR UPDATE SKIP LOCKED));
  DELETE FROM locks.waiter d WHERE d.ctid = ANY (ARRAY(
    SELECT w.ctid FROM locks.waiter w JOIN locks.queue q ON q.key = w.key
      WHERE w.ctid >= begin_at AND w.ctid < end_at AND q.expires < long_ago LIMIT 10000 FOR UPDATE SKIP LOCKED));
  DELETE FROM locks.reservation d WHERE d.ctid = ANY (ARRAY(
    SELECT r.ctid FROM locks.reservation r
      WHERE r.ctid >= begin_at AND r.ctid < end_at AND r.began < long_ago LIMIT 10000 FOR UPDATE SKIP LOCKED));
  -- A queue last: it says when its waiters have expired, which may be in another part.
  DELETE FROM locks.queue d WHERE d.ctid = ANY (ARRAY(
    SELECT q.ctid FROM locks.queue q
      WHERE q.ctid >= begin_at AND q.ctid < end_at AND q.expires < long_ago
        AND NOT EXISTS (SELECT FROM locks.waiter w WHERE w.key = q.key) LIMIT 10000 FOR UPDATE SKIP LOCKED));
  DELETE FROM locks.heard d WHERE d.ctid = ANY (ARRAY(
    SELECT h.ctid FROM locks.heard h
      WHERE h.ctid >= begin_at AND h.ctid < end_at AND h.at < long_ago LIMIT 10000 FOR UPDATE SKIP LOCKED));
  SELECT max(pg_relation_size(c.oid)) / current_setting('block_size')::bigint INTO pages
    FROM pg_class c WHERE c.relnamespace = 'locks'::regnamespace AND c.relkind = 'r';
  IF next_page >= pages THEN next_page := 0; END IF;

  has_old_snapshot := false;
  IF page = 0 THEN
    PERFORM set_config('locks.last_sweep', (next_transaction % 4294967296)::text, false);
    -- Without those of autovacuum, which have no user. What kind of process it is, only those with rights are told.
    has_old_snapshot := EXISTS (
      SELECT FROM pg_stat_activity a JOIN pg_database d ON d.oid = a.datid
        WHERE d.datname = current_database() AND a.usesysid IS NOT NULL AND age(a.backend_xmin) > age(last_sweep::xid));
  END IF;
END $$;
