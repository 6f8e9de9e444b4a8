-- What most requests to the ledger are, once more: a writer acquires a free lock for which nobody waits, extends it, or releases it.
-- All of these in a batch are executed by one statement or two, since to begin a statement takes longer than its rows. The others are
-- left to `lock_votes`: so is the first request for a lock or a fence that has no row, and one whose token has to be on disk first.

-- Executes only requests that are alone: which share no fence with another one of the batch, neither of their locks nor of their queues.
-- None reads what another one writes, so it does not matter in which order they are executed. For those that are left, there is no reply.
-- A subquery for one value is an index scan for each request; `EXISTS` may become a scan of the table. Rows are updated by their place, which
-- only a sweep could have emptied meanwhile: that request is left as well.
CREATE FUNCTION pg_temp.lock_usual(
  space text, of_epoch text, moment timestamptz, alone boolean[], kinds text[], keys text[], queues text[], fences integer[],
  owners uuid[], ttls bigint[], hints bigint[], tokens integer[], reading boolean[],
  OUT replies text[], OUT numbers bigint[], OUT memory text
) LANGUAGE plpgsql AS $$
DECLARE place integer; new_token bigint; has_ends boolean := kinds && '{release,leave}'; has_others boolean := kinds && '{acquire,extend}';
BEGIN
  IF has_others THEN
    FOR place, new_token, memory IN
      WITH usual AS MATERIALIZED (
        SELECT a.place, l.at AS lock_at, c.at AS count_at, n.run_id, greatest(l.expires, moment + ttls[a.place] * interval '1 microsecond') AS expires,
          CASE kinds[a.place] WHEN 'acquire' THEN greatest(hints[a.place], greatest(c.token, n.floor) + 1) + tokens[a.place] - 1 END AS token
          FROM locks.node n CROSS JOIN generate_series(1, cardinality(kinds)) AS a (place)
          -- Without the limits, tables that were empty when the plan was made would be read as a whole.
          CROSS JOIN LATERAL (SELECT x.ctid AS at, x.owner, x.expires FROM locks.lock x WHERE x.key = keys[a.place] LIMIT 1) l
          CROSS JOIN LATERAL (
            SELECT x.ctid AS at, x.token, x.most, x.is_on_disk FROM locks.counter x
              WHERE x.keyspace = space AND x.fence = fences[a.place] LIMIT 1) c
          WHERE n.keyspace = space AND n.epoch = of_epoch AND alone[a.place] AND CASE kinds[a.place]
            WHEN 'acquire' THEN NOT reading[a.place] AND l.expires <= moment
              AND greatest(hints[a.place], greatest(c.token, n.floor) + 1) + tokens[a.place] - 1 <= c.most
              AND (c.is_on_disk OR pg_temp.lock_is_hasty())
              AND (SELECT true FROM locks.queue q WHERE q.key = queues[a.place]) IS NULL
              AND (SELECT true FROM locks.evicted e WHERE e.key = keys[a.place]) IS NULL
            ELSE kinds[a.place] = 'extend' AND l.owner = owners[a.place] AND l.expires > moment
          END
      ), counted AS (
        UPDATE locks.counter c SET token = u.token FROM usual u WHERE c.ctid = u.count_at AND u.token IS NOT NULL
      )
      UPDATE locks.lock l SET owner = owners[u.place], expires = u.expires FROM usual u WHERE l.ctid = u.lock_at
        RETURNING u.place, u.token, u.run_id
    LOOP
      replies[place] := CASE kinds[place] WHEN 'acquire' THEN 'granted' ELSE 'kept' END;
      numbers[place] := new_token;
    END LOOP;
  END IF;
  IF has_ends THEN
    FOR place, memory IN
      UPDATE locks.lock l SET expires = '-infinity' FROM (
        SELECT a.place, l.at, n.run_id
          FROM locks.node n CROSS JOIN generate_series(1, cardinality(kinds)) AS a (place)
          CROSS JOIN LATERAL (SELECT x.ctid AS at, x.owner, x.expires FROM locks.lock x WHERE x.key = keys[a.place] LIMIT 1) l
          WHERE n.keyspace = space AND n.epoch = of_epoch AND alone[a.place] AND kinds[a.place] IN ('release', 'leave')
            AND l.owner = owners[a.place] AND l.expires > moment
            AND (SELECT true FROM locks.queue q WHERE q.key = queues[a.place]) IS NULL
        ) u WHERE l.ctid = u.at
        RETURNING u.place, u.run_id
    LOOP
      replies[place] := 'released';
    END LOOP;
  END IF;
END $$;
