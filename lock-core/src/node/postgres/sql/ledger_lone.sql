-- One request, which is what a caller alone sends: the usual ones as in `lock_usual`, the others by `lock_votes`. It takes half the time of a
-- batch of one: what a statement and a function begin with are their parameters, tables and arrays, and here are fewer of them.

-- Executes a request, and replies with a row: see `lock_votes`.
CREATE FUNCTION pg_temp.lock_vote(
  session text, space text, of_epoch text, caller uuid, polling boolean, all_fences integer[],
  kind text, lock_key text, of_queue text, fence_id integer, owner_id uuid, ttl bigint, hint bigint, token_count integer,
  since_us bigint, is_reader boolean, permit_count integer
) RETURNS TABLE (reply text, number bigint, ahead integer, offer text) LANGUAGE plpgsql AS $$
DECLARE moment timestamptz; memory text; is_vote boolean;
BEGIN
  moment := pg_temp.lock_begin(session, all_fences);
  IF kind = 'acquire' AND NOT is_reader THEN
    WITH counted AS (
      UPDATE locks.counter c SET token = greatest(hint, greatest(c.token, n.floor) + 1) + token_count - 1 FROM locks.node n
        WHERE n.keyspace = space AND n.epoch = of_epoch AND c.keyspace = space AND c.fence = fence_id
        AND greatest(hint, greatest(c.token, n.floor) + 1) + token_count - 1 <= c.most
        AND (c.is_on_disk OR pg_temp.lock_is_hasty())
        AND EXISTS (SELECT FROM locks.lock l WHERE l.key = lock_key AND l.expires <= moment)
        AND NOT EXISTS (SELECT FROM locks.queue q WHERE q.key = of_queue)
        AND NOT EXISTS (SELECT FROM locks.evicted e WHERE e.key = lock_key)
        RETURNING c.token, n.run_id
    )
    UPDATE locks.lock l SET owner = owner_id, expires = moment + ttl * interval '1 microsecond' FROM counted c WHERE l.key = lock_key
      RETURNING 'granted', c.token, c.run_id INTO reply, number, memory;
  ELSIF kind IN ('release', 'leave') THEN
    UPDATE locks.lock l SET expires = '-infinity' FROM locks.node n
      WHERE n.keyspace = space AND n.epoch = of_epoch AND l.key = lock_key AND l.owner = owner_id AND l.expires > moment
      AND NOT EXISTS (SELECT FROM locks.queue q WHERE q.key = of_queue)
      RETURNING 'released', n.run_id INTO reply, memory;
  ELSIF kind = 'extend' THEN
    UPDATE locks.lock l SET expires = greatest(l.expires, moment + ttl * interval '1 microsecond') FROM locks.node n
      WHERE n.keyspace = space AND n.epoch = of_epoch AND l.key = lock_key AND l.owner = owner_id AND l.expires > moment
      RETURNING 'kept', n.run_id INTO reply, memory;
  END IF;
  IF reply IS NULL THEN
    RETURN QUERY SELECT * FROM pg_temp.lock_votes(session, space, of_epoch, caller, polling, all_fences, ARRAY[kind], ARRAY[lock_key],
      ARRAY[of_queue], ARRAY[fence_id], ARRAY[owner_id], ARRAY[ttl], ARRAY[hint], ARRAY[token_count], ARRAY[since_us], ARRAY[is_reader],
      ARRAY[true], ARRAY[permit_count]);
    RETURN;
  END IF;
  -- What was written is in unlogged tables: so the commit has nothing to wait for, unless there are synchronous standbys.
  IF pg_temp.lock_is_memory(memory) IS NOT TRUE OR current_setting('synchronous_standby_names') <> '' THEN
    is_vote := pg_temp.lock_end(memory, reply <> 'released');
  END IF;
  RETURN NEXT;
END $$;
