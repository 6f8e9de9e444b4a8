-- Looking at locks, and evicting their holders.

-- Reads what the node has of some locks, in one snapshot. No rows if the node is not in this epoch; '' is any.
CREATE FUNCTION pg_temp.lock_look(session text, space text, of_epoch text, keys text[], queues text[], fences integer[])
RETURNS TABLE (
  holder text, is_held boolean, remaining bigint, fence bigint, waiters bigint, readers text[], readers_remaining bigint[],
  evicted text[]
) LANGUAGE sql STABLE AS $$
  WITH moment AS MATERIALIZED (SELECT pg_temp.lock_check_session(session), statement_timestamp() AS now)
  SELECT l.owner::text, l.expires IS NOT NULL, pg_temp.lock_micros(l.expires - m.now), greatest(f.token, n.floor, 0),
    CASE WHEN q.expires > m.now THEN (SELECT count(*) FROM locks.waiter w WHERE w.key = a.queue) ELSE 0 END,
    r.owners, r.remaining, CASE WHEN e.until > m.now THEN e.owners::text[] END
  FROM moment m
  CROSS JOIN unnest(keys, queues, fences) WITH ORDINALITY AS a (key, queue, fence, place)
  LEFT JOIN locks.node n ON n.keyspace = space
  LEFT JOIN locks.lock l ON l.key = a.key AND l.expires > m.now
  LEFT JOIN locks.fence f ON f.keyspace = space AND f.fence = a.fence
  LEFT JOIN locks.queue q ON q.key = a.queue
  LEFT JOIN locks.evicted e ON e.key = a.key
  LEFT JOIN LATERAL (
    SELECT array_agg(y.owner::text ORDER BY y.expires DESC, y.owner DESC) AS owners,
      array_agg(pg_temp.lock_micros(y.expires - m.now) ORDER BY y.expires DESC, y.owner DESC) AS remaining
    FROM (
      SELECT x.owner, x.expires FROM locks.reader x WHERE x.key = a.key AND x.expires > m.now
        ORDER BY x.expires DESC, x.owner DESC LIMIT @MAX_READERS_SEEN@
    ) y
  ) r ON l.key IS NOT NULL AND l.owner IS NULL
  WHERE of_epoch = '' OR n.epoch = of_epoch
  ORDER BY a.place
$$;

CREATE FUNCTION pg_temp.lock_is_evicted(lock_key text, owner_id uuid, moment timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM locks.evicted e WHERE e.key = lock_key AND e.until > moment AND owner_id = ANY (e.owners));
END $$;

-- Evicts holders of a lock: see `Evict`.
CREATE FUNCTION pg_temp.lock_evict(
  session text, space text, of_epoch text, all_fences integer[], lock_key text, of_queue text, fence_id integer, named uuid[],
  token bigint, barred_for bigint,
  OUT reply text, OUT number bigint
) LANGUAGE plpgsql AS $$
DECLARE
  moment timestamptz; least_token bigint; memory text; l locks.lock; is_held boolean; is_nobodys boolean; barred uuid[];
  barred_until timestamptz; turn record;
BEGIN
  PERFORM pg_temp.lock_check_session(session);
  PERFORM pg_temp.lock_fences(all_fences);
  SELECT n.floor, n.run_id INTO least_token, memory FROM locks.node n WHERE n.keyspace = space AND n.epoch = of_epoch;
  IF NOT FOUND THEN reply := 'unadmitted'; RETURN; END IF;
  moment := clock_timestamp();
  SELECT * INTO l FROM locks.lock WHERE locks.lock.key = lock_key AND locks.lock.expires > moment;
  is_held := FOUND;
  is_nobodys := is_held AND coalesce(l.owner = '@NOBODY@', false);
  IF is_held AND NOT is_nobodys AND (l.owner IS NOT NULL AND l.owner <> ALL (named) OR l.owner IS NULL AND EXISTS (
    SELECT FROM locks.reader r WHERE r.key = lock_key AND r.expires > moment AND r.owner <> ALL (named))) THEN
    reply := 'superseded';
    RETURN;
  END IF;
  SELECT f.token INTO number FROM locks.fence f WHERE f.keyspace = space AND f.fence = fence_id;
  number := greatest(number, least_token);
  IF number >= token THEN reply := 'refused'; RETURN; END IF;

  -- The tombstone, for as long as it was asked for, or as those that were evicted before are barred.
  SELECT e.owners, e.until INTO barred, barred_until FROM locks.evicted e WHERE e.key = lock_key AND e.until > moment;
  barred := coalesce(barred, '{}');
  barred := barred || ARRAY(
    SELECT o.owner FROM unnest(named) WITH ORDINALITY AS o (owner, place) WHERE o.owner <> ALL (barred)
      GROUP BY o.owner ORDER BY min(o.place));
  IF cardinality(barred) > @MAX_EVICTED@ THEN reply := 'too_many'; RETURN; END IF;
  IF barred <> '{}' THEN
    INSERT INTO locks.evicted AS e VALUES (lock_key, barred, greatest(barred_until, moment + barred_for * interval '1 microsecond'))
      ON CONFLICT (key) DO UPDATE SET owners = excluded.owners, until = excluded.until;
  END IF;
  PERFORM pg_temp.lock_count(space, fence_id, token);
  IF is_held AND NOT is_nobodys THEN
    UPDATE locks.lock x SET owner = '@NOBODY@', expires = moment + interval '@EVICTION_GAP@ ms' WHERE x.key = lock_key;
    DELETE FROM locks.reader r WHERE r.key = lock_key;
  END IF;
  IF pg_temp.lock_expire_queue(of_queue, lock_key, moment) THEN
    SELECT * INTO turn FROM pg_temp.lock_reservation(of_queue, lock_key, NULL, moment);
    IF turn.waiter IS NULL THEN PERFORM pg_temp.lock_offer(space, of_queue, lock_key, NULL, moment); END IF;
    -- The waiters were woken. The lock is not free yet, so it is reserved for none of them.
    IF is_held THEN PERFORM pg_temp.lock_end_reservations(of_queue, lock_key, 0); END IF;
  END IF;
  reply := CASE WHEN is_held AND NOT is_nobodys THEN 'deleted' ELSE 'free' END;
  PERFORM pg_temp.lock_check_ledger(memory);
  PERFORM pg_temp.lock_sync();
END $$;
