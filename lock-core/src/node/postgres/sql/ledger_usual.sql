-- What most requests to the ledger are, once more: a writer acquires a free lock for which nobody waits, extends it, or releases it. All of these in a batch are
-- executed by one statement, since to begin a statement takes longer than its rows. The others are left to `lock_votes`.

-- Executes only requests that are alone: which share no fence with another one of the batch, neither of their locks nor of their queues.
-- None reads what another one writes, so it does not matter in which order they are executed. For those that are left, there is no reply.
CREATE FUNCTION pg_temp.lock_usual(
  space text, least_token bigint, moment timestamptz, alone boolean[], kinds text[], keys text[], queues text[], fences integer[],
  owners uuid[], ttls bigint[], hints bigint[], tokens integer[], reading boolean[], OUT replies text[], OUT numbers bigint[]
) LANGUAGE plpgsql AS $$
DECLARE index integer; new_token bigint;
BEGIN
  FOR index, new_token IN
    WITH usual AS MATERIALIZED (
      SELECT a.place, a.kind, a.key, a.fence, a.owner, greatest(a.hint, greatest(f.token, least_token) + 1) + a.tokens - 1 AS token,
        a.kind NOT IN ('acquire', 'extend') AS ends, greatest(l.expires, moment + a.ttl * interval '1 microsecond') AS expires
      FROM unnest(alone, kinds, keys, queues, fences, owners, ttls, hints, tokens, reading)
        WITH ORDINALITY AS a (is_alone, kind, key, queue, fence, owner, ttl, hint, tokens, is_reader, place)
      -- Without the limits, tables that were empty when the plan was made would be read as a whole for each request.
      LEFT JOIN LATERAL (SELECT * FROM locks.lock x WHERE x.key = a.key AND x.expires > moment LIMIT 1) l ON true
      LEFT JOIN LATERAL (SELECT * FROM locks.fence x WHERE x.keyspace = space AND x.fence = a.fence LIMIT 1) f ON true
      LEFT JOIN LATERAL (SELECT * FROM locks.queue x WHERE x.key = a.queue LIMIT 1) q ON true
      LEFT JOIN LATERAL (SELECT * FROM locks.evicted x WHERE x.key = a.key LIMIT 1) e ON true
      WHERE a.is_alone AND CASE a.kind
        WHEN 'acquire' THEN NOT a.is_reader AND l.key IS NULL AND q.key IS NULL AND e.key IS NULL
          AND greatest(a.hint, f.token, least_token) < @MAX_TOKEN@ - a.tokens
        WHEN 'extend' THEN l.owner = a.owner
        ELSE a.kind IN ('release', 'leave') AND l.owner = a.owner AND q.key IS NULL
      END
    ), counted AS (
      INSERT INTO locks.fence SELECT space, u.fence, u.token FROM usual u WHERE u.kind = 'acquire'
        ON CONFLICT (keyspace, fence) DO UPDATE SET token = excluded.token
    ), written AS (
      INSERT INTO locks.lock SELECT u.key, u.owner, u.expires FROM usual u WHERE NOT u.ends
        ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
    ), ended AS (
      DELETE FROM locks.lock l WHERE l.key = ANY (ARRAY(SELECT u.key FROM usual u WHERE u.ends))
    )
    SELECT u.place, u.token FROM usual u
  LOOP
    replies[index] := CASE kinds[index] WHEN 'acquire' THEN 'granted' WHEN 'extend' THEN 'kept' ELSE 'released' END;
    numbers[index] := new_token;
  END LOOP;
END $$;
