-- The same as `lock_usual` for one request, which is what a caller alone sends. It takes half the time: what a statement begins with
-- are its tables, its arrays and its functions, and here are fewer of them.

-- Executes a request if it is a usual one: see `lock_usual`. Otherwise there is no reply.
CREATE FUNCTION pg_temp.lock_lone(
  space text, of_epoch text, moment timestamptz, kind text, lock_key text, of_queue text, fence_id integer, owner_id uuid, new_end timestamptz,
  hint bigint, token_count integer, is_reader boolean, OUT reply text, OUT number bigint, OUT memory text
) LANGUAGE plpgsql AS $$
BEGIN
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
    UPDATE locks.lock l SET owner = owner_id, expires = new_end FROM counted c WHERE l.key = lock_key
      RETURNING 'granted', c.token, c.run_id INTO reply, number, memory;
  ELSIF kind IN ('release', 'leave') THEN
    UPDATE locks.lock l SET expires = '-infinity' FROM locks.node n
      WHERE n.keyspace = space AND n.epoch = of_epoch AND l.key = lock_key AND l.owner = owner_id AND l.expires > moment
      AND NOT EXISTS (SELECT FROM locks.queue q WHERE q.key = of_queue)
      RETURNING 'released', n.run_id INTO reply, memory;
  END IF;
END $$;
