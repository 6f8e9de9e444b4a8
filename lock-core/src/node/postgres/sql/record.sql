-- The record of the node, and the memory that it is in.

-- Names the ledger: the tables whose rows decide votes, by the files that they are in. A table has another file after it was dropped and
-- created, truncated, or restored from a dump; and after `VACUUM FULL`, which loses nothing, but that cannot be told from the file.
-- The constants are looked up again when a table of that name is another one. One expression without a query: it costs a microsecond.
CREATE FUNCTION pg_temp.lock_ledger() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT concat_ws('.', pg_relation_filenode('locks.node'::regclass), pg_relation_filenode('locks.fence'::regclass),
    pg_relation_filenode('locks.lock'::regclass), pg_relation_filenode('locks.reader'::regclass),
    pg_relation_filenode('locks.evicted'::regclass)) || '/'
$$;

-- Whether the tables of the ledger are still those of a memory.
CREATE FUNCTION pg_temp.lock_is_memory(memory text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT starts_with(memory, pg_temp.lock_ledger())
$$;

-- Names the memory: the ledger; the database and the memory marker, which others have after a database was copied or created again. That marker
-- is in an unlogged table, and so gone after a crash, a promotion, or a restored base backup. Nothing if there is none. A dump with the data of
-- unlogged tables has the marker, and two fresh clusters that it was restored into may agree in all of this: docs/operations.md. Of functions that
-- hosts deny to their users, none is called: clients that may call them would have another name for the same memory.
CREATE FUNCTION pg_temp.lock_run_id() RETURNS text LANGUAGE sql AS $$
  SELECT pg_temp.lock_ledger() || concat_ws('/', (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()),
    r.tableoid, r.xmin, r.id)
  FROM locks.run r
$$;

-- Reads everything that decides whether the node is admitted. The record is of one snapshot, taken when the statement was bound. The time
-- is that of its execution, a moment later: no quarantine of the record began after it. What locks the tables is named before the
-- inspection is given up, which takes a second. How far the log is written is told by the number of the next transaction, which is written
-- with it: each batch has one.
CREATE FUNCTION pg_temp.lock_inspect(session text, space text)
RETURNS TABLE (run_id text, written bigint, clock bigint, fields text[]) LANGUAGE sql STABLE SET lock_timeout = '800ms' AS $$
  SELECT pg_temp.lock_run_id(), txid_snapshot_xmax(txid_current_snapshot()), pg_temp.lock_micros(statement_timestamp() - 'epoch'::timestamptz),
    (SELECT ARRAY[n.member, n.version, n.run_id, n.format, n.was, n.roster, n.previous, n.promised, n.accepted, n.quarantines, n.epoch]
      FROM locks.node n WHERE n.keyspace = space)
  FROM pg_temp.lock_check_session(session)
$$;

-- Writes the record, if the present one is the expected one, and the memory is that of the new one: `fields` are those of
-- `lock_inspect`. Expected is '' for no record. Each of `begin` begins a quarantine, which lasts for `begin_micros`. Returns the
-- id and the quarantines that were written, or no row.
CREATE FUNCTION pg_temp.lock_write_record(
  session text, space text, expected_member text, expected_version text, fields text[], is_new boolean, least_token bigint,
  begin_members text[], begin_micros bigint[]
) RETURNS TABLE (member text, quarantines text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE moment bigint; found locks.node;
BEGIN
  PERFORM pg_temp.lock_check_session(session);
  PERFORM pg_advisory_xact_lock(@LOCKS@, @RECORDS@);
  SELECT * INTO found FROM locks.node n WHERE n.keyspace = space;
  IF coalesce(found.member, '') <> expected_member OR coalesce(found.version, '') <> expected_version
    OR fields[3] IS DISTINCT FROM pg_temp.lock_run_id() THEN
    RETURN;
  END IF;
  moment := pg_temp.lock_micros(clock_timestamp() - 'epoch'::timestamptz);
  IF is_new THEN fields[1] := fields[1] || '-' || moment; END IF;
  fields[10] := (
    SELECT concat_ws(' ', nullif(fields[10], ''), string_agg(b.member || ' ' || moment + b.micros, ' ' ORDER BY b.place))
      FROM unnest(begin_members, begin_micros) WITH ORDINALITY AS b (member, micros, place));
  DELETE FROM locks.node n WHERE n.keyspace = space;
  INSERT INTO locks.node VALUES (
    space, fields[1], fields[2], fields[3], fields[4], fields[5], fields[6], fields[7], fields[8], fields[9], fields[10], fields[11],
    greatest(found.floor, least_token, 0));
  PERFORM pg_temp.lock_sync();
  RETURN QUERY SELECT fields[1], fields[10];
END $$;

-- The highest of the fences, and the id of the memory that they are in.
CREATE FUNCTION pg_temp.lock_read_fences(session text, space text) RETURNS TABLE (member text, highest bigint)
LANGUAGE sql STABLE AS $$
  SELECT n.member, greatest(n.floor, (
    SELECT max(coalesce(c.token, f.token)) FROM locks.fence f LEFT JOIN locks.counter c USING (keyspace, fence) WHERE f.keyspace = space))
  FROM pg_temp.lock_check_session(session), locks.node n WHERE n.keyspace = space AND n.run_id = pg_temp.lock_run_id()
$$;
