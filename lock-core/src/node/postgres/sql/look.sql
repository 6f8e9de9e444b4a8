-- Looks at locks.

-- Reads what the node has of some locks, in one snapshot. No rows if the node is not in this epoch; '' is any.
CREATE FUNCTION pg_temp.lock_look(session text, space text, of_epoch text, keys text[], queues text[], fences integer[])
RETURNS TABLE (
  holder text, is_held boolean, remaining bigint, fence bigint, waiters bigint, readers text[], readers_remaining bigint[],
  evicted text[]
) LANGUAGE sql STABLE AS $$
  WITH moment AS MATERIALIZED (SELECT pg_temp.lock_check_session(session), statement_timestamp() AS now)
  SELECT l.owner::text, l.expires IS NOT NULL, pg_temp.lock_micros(l.expires - m.now), greatest(coalesce(c.token, f.token), n.floor, 0),
    CASE WHEN q.expires > m.now THEN (SELECT count(*) FROM locks.waiter w WHERE w.key = a.queue) ELSE 0 END,
    r.owners, r.remaining, CASE WHEN e.until > m.now THEN e.owners::text[] END
  FROM moment m
  CROSS JOIN unnest(keys, queues, fences) WITH ORDINALITY AS a (key, queue, fence, place)
  LEFT JOIN locks.node n ON n.keyspace = space
  LEFT JOIN locks.lock l ON l.key = a.key AND l.expires > m.now
  LEFT JOIN locks.fence f ON f.keyspace = space AND f.fence = a.fence
  LEFT JOIN locks.counter c ON c.keyspace = space AND c.fence = a.fence
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
