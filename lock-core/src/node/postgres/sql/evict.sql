-- Evicts holders of a lock: see `Evict`. A part of the ledger, which must be right.
CREATE FUNCTION pg_temp.lock_evict(
  session text, space text, of_epoch text, all_fences integer[], lock_key text, of_queue text, fence_id integer, named uuid[],
  token bigint, barred_for bigint,
  OUT reply text, OUT number bigint
) LANGUAGE plpgsql AS $$
DECLARE
  moment timestamptz; least_token bigint; memory text; l locks.lock; is_held boolean; had_holder boolean; barred uuid[];
  barred_until timestamptz;
BEGIN
  moment := pg_temp.lock_begin(session, all_fences);
  SELECT n.floor, n.run_id INTO least_token, memory FROM locks.node n WHERE n.keyspace = space AND n.epoch = of_epoch;
  IF NOT FOUND THEN reply := 'unadmitted'; RETURN; END IF;
  SELECT * INTO l FROM locks.lock WHERE locks.lock.key = lock_key AND locks.lock.expires > moment;
  is_held := FOUND;
  had_holder := is_held AND l.owner IS DISTINCT FROM '@NOBODY@';
  IF had_holder AND (l.owner IS NOT NULL AND l.owner <> ALL (named) OR l.owner IS NULL AND EXISTS (
    SELECT FROM locks.reader r WHERE r.key = lock_key AND r.expires > moment AND r.owner <> ALL (named))) THEN
    reply := 'superseded';
    RETURN;
  END IF;
  SELECT coalesce(c.token, f.token) INTO number FROM locks.fence f LEFT JOIN locks.counter c USING (keyspace, fence)
    WHERE f.keyspace = space AND f.fence = fence_id;
  number := greatest(number, least_token);
  IF number >= token THEN reply := 'refused'; RETURN; END IF;

  -- The tombstone, for as long as it was asked for, or as those that were evicted before are barred.
  SELECT e.owners, e.until INTO barred, barred_until FROM locks.evicted e WHERE e.key = lock_key AND e.until > moment;
  barred := coalesce(barred, '{}');
  barred := barred || ARRAY(
    SELECT o.owner FROM unnest(named) WITH ORDINALITY AS o (owner, place) WHERE o.owner <> ALL (barred)
      GROUP BY o.owner ORDER BY min(o.place));
  IF cardinality(barred) > @MAX_EVICTED@ THEN reply := 'too_many'; RETURN; END IF;
  IF named <> '{}' THEN
    INSERT INTO locks.evicted AS e VALUES (lock_key, barred, greatest(barred_until, moment + barred_for * interval '1 microsecond'))
      ON CONFLICT (key) DO UPDATE SET owners = excluded.owners, until = excluded.until;
  END IF;
  PERFORM pg_temp.lock_count(space, fence_id, token);
  IF had_holder THEN
    UPDATE locks.lock x SET owner = '@NOBODY@', expires = moment + interval '@EVICTION_GAP@ ms' WHERE x.key = lock_key;
    DELETE FROM locks.reader r WHERE r.key = lock_key;
  END IF;
  IF of_queue = lock_key THEN
    PERFORM pg_temp.lock_evicted(space, lock_key, is_held, moment);
  ELSE
    PERFORM pg_temp.lock_slot_evicted(space, of_queue, lock_key, is_held, moment);
  END IF;
  reply := CASE WHEN had_holder THEN 'deleted' ELSE 'free' END;
  is_held := pg_temp.lock_end(memory, true);
END $$;
