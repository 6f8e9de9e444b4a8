-- Removes what expired more than a minute ago, and the rows of locks that were freed, from a part of each table: the 32 pages from this
-- one on. So it takes milliseconds also if there are millions of rows, or of dead ones. (Before version 14, a part of a table cannot
-- be read: each sweep reads the whole table, and removes at most 10,000 rows.) It waits for nobody: what is locked, others use or remove.
-- Returns the page to go on with, or 0 after the last one; and, with the first one, whether a snapshot is as old as the sweep before:
-- rows that were deleted or replaced since then cannot be removed. Those of prepared transactions and replication slots are not seen.
CREATE FUNCTION pg_temp.lock_sweep(session text, page bigint, OUT next_page bigint, OUT has_old_snapshot boolean) LANGUAGE plpgsql AS $$
DECLARE
  long_ago timestamptz := clock_timestamp() - interval '1 minute'; of_table text; has_expired text;
  begin_at tid; end_at tid; pages bigint;
  last_sweep text := current_setting('locks.last_sweep', true); next_transaction bigint := txid_snapshot_xmax(txid_current_snapshot());
BEGIN
  PERFORM pg_temp.lock_check_session(session);
  next_page := CASE WHEN current_setting('server_version_num')::integer >= 140000 THEN page + 32 ELSE 4294967295 END;
  begin_at := format('(%s,0)', page)::tid; end_at := format('(%s,0)', next_page)::tid;
  FOR of_table, has_expired IN VALUES
    ('lock', 't.expires < $3'), ('reader', 't.expires < $3'), ('evicted', 't.until < $3'), ('reservation', 't.began < $3'),
    ('heard', 't.at < $3'), ('waiter', 'EXISTS (SELECT FROM locks.queue q WHERE q.key = t.key AND q.expires < $3)'),
    -- A queue after its waiters: it says when they have expired, and they may be in another part.
    ('queue', 't.expires < $3 AND NOT EXISTS (SELECT FROM locks.waiter w WHERE w.key = t.key)')
  LOOP
    EXECUTE format(
      'DELETE FROM locks.%1$I d WHERE d.ctid = ANY (ARRAY(
        SELECT t.ctid FROM locks.%1$I t WHERE t.ctid >= $1 AND t.ctid < $2 AND %2$s LIMIT 10000 FOR UPDATE SKIP LOCKED))',
      of_table, has_expired) USING begin_at, end_at, long_ago;
  END LOOP;
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
