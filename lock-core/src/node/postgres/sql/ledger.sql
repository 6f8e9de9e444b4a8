-- The ledger: who holds each lock and until when, the highest token of each fence, and who was evicted. This half must be right: that no
-- two hold one lock, and that tokens only grow, rests on it alone. Of the waiting room (`waiting.sql`), it asks whether a lock that it
-- could grant is kept for somebody else, and tells it what became of a request. Whatever the waiting room answers, nothing is granted
-- but what is free here, or read.

-- Begins a batch: checks the session, and lets there be one batch at a time for each fence, and so for each lock and each queue: an advisory
-- lock on the fence is held to the end of the transaction. So is a shared one on the records, which are written under an exclusive one.
-- `all_fences` are the fences of the locks, and the fences that locks with the keys of the queues would have, in ascending order: two batches
-- that share several would otherwise wait for each other for ever. Returns the time.
--
-- Expressions, because `PERFORM` would begin a statement for each.
CREATE FUNCTION pg_temp.lock_begin(session text, all_fences integer[]) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE fence_id integer; is_locked boolean;
BEGIN
  IF NOT pg_temp.lock_is_session(session) THEN RAISE EXCEPTION 'this is another session' USING ERRCODE = 'LK001'; END IF;
  is_locked := pg_advisory_xact_lock_shared(@LOCKS@, @RECORDS@) IS NOT NULL;
  FOREACH fence_id IN ARRAY all_fences LOOP is_locked := pg_advisory_xact_lock(@LOCKS@, fence_id) IS NOT NULL; END LOOP;
  RETURN clock_timestamp();
END $$;

-- Ends a batch in this memory, after its last access to a table: what was read or written stays locked to the end of the transaction, so
-- nobody drops or truncates it after this check. Has the transaction wait for the disk, as far as the node was told to, if a reply may count
-- as a vote. And for synchronous standbys: a primary that is cut off from them must not grant anything beside its successor. A commit only
-- waits for what it logged, so something is.
CREATE FUNCTION pg_temp.lock_end(of_memory text, is_vote boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE logged_at pg_lsn;
BEGIN
  IF pg_temp.lock_is_memory(of_memory) IS NOT TRUE THEN
    RAISE EXCEPTION 'a table of the ledger is another one' USING ERRCODE = 'LK002';
  END IF;
  IF is_vote AND current_setting('synchronous_standby_names') <> '' THEN logged_at := pg_logical_emit_message(true, 'locks', ''); END IF;
  RETURN is_vote AND pg_temp.lock_sync() IS NOT NULL;
END $$;

-- Executes a batch of requests, in order, and replies to each of them with a row, by the rules of `Operation`. It is one function, because
-- all kinds of requests read the same rows first, and each further call takes time for each request. Of a request,
-- `number` is the hint of an acquire, and otherwise a token; `since` is 0 for a caller that does not wait; `permits` is, of a slot, how many
-- the caller may choose from, and otherwise 0; `alone` is whether no other one
-- has its fences: see `lock_usual`.
CREATE FUNCTION pg_temp.lock_votes(
  session text, space text, of_epoch text, caller uuid, polling boolean, all_fences integer[],
  kinds text[], keys text[], queues text[], fences integer[], owners uuid[], ttls bigint[], numbers bigint[], tokens integer[],
  sinces bigint[], reading boolean[], alone boolean[], permits integer[]
) RETURNS TABLE (reply text, number bigint, ahead integer, offer text) LANGUAGE plpgsql AS $$
DECLARE
  moment timestamptz; least_token bigint; memory text; is_vote boolean := false;
  kind text; lock_key text; of_queue text; fence_id integer; owner_id uuid; new_end timestamptz; since_us bigint; is_reader boolean;
  holder uuid; held_until timestamptz; last_token bigint; is_barred boolean; has_queue boolean;
  is_shared boolean; is_ours boolean; usual record; usual_replies text[]; usual_numbers bigint[];
BEGIN
  moment := pg_temp.lock_begin(session, all_fences);
  -- One that comes alone is not a usual one: see `lock_vote`.
  IF cardinality(kinds) > 1 THEN
    usual := pg_temp.lock_usual(space, of_epoch, moment, alone, kinds, keys, queues, fences, owners, ttls, numbers, tokens, reading);
    usual_replies := usual.replies; usual_numbers := usual.numbers; memory := usual.memory;
  END IF;

  FOR i IN 1 .. cardinality(kinds) LOOP
    reply := usual_replies[i]; number := usual_numbers[i]; ahead := NULL; offer := NULL;
    IF reply IS NOT NULL THEN
      is_vote := is_vote OR reply <> 'released';
      RETURN NEXT;
      CONTINUE;
    END IF;
    IF least_token IS NULL THEN
      SELECT n.floor, n.run_id INTO least_token, memory FROM locks.node n WHERE n.keyspace = space AND n.epoch = of_epoch;
      IF NOT FOUND THEN
        RETURN QUERY SELECT 'unadmitted', NULL::bigint, NULL::integer, NULL::text FROM unnest(kinds);
        RETURN;
      END IF;
    END IF;
    kind := kinds[i]; lock_key := keys[i]; of_queue := queues[i]; fence_id := fences[i]; owner_id := owners[i];
    new_end := moment + ttls[i] * interval '1 microsecond'; since_us := sinces[i]; is_reader := reading[i];
    SELECT l.owner, l.expires, greatest(c.token, f.token, least_token), coalesce(e.until > moment AND owner_id = ANY (e.owners), false),
      q.key IS NOT NULL
      INTO holder, held_until, last_token, is_barred, has_queue
      FROM (SELECT lock_key AS of_lock) r
      LEFT JOIN locks.lock l ON l.key = r.of_lock AND l.expires > moment
      LEFT JOIN locks.counter c ON c.keyspace = space AND c.fence = fence_id
      LEFT JOIN locks.fence f ON f.keyspace = space AND f.fence = fence_id AND c.token IS NULL
      LEFT JOIN locks.evicted e ON e.key = r.of_lock
      LEFT JOIN locks.queue q ON q.key = of_queue;
    is_shared := held_until IS NOT NULL AND holder IS NULL;
    is_ours := coalesce(holder = owner_id, false);
    IF is_shared THEN
      is_ours := EXISTS (SELECT FROM locks.reader r WHERE r.key = lock_key AND r.owner = owner_id AND r.expires > moment);
    END IF;

    IF kind = 'acquire' THEN
      -- A reader is never granted the lock to write, even if a request from before it was downgraded arrives late.
      IF is_ours AND (is_reader OR NOT is_shared) THEN
        reply := 'granted'; number := last_token; is_vote := true;
      ELSIF permits[i] > 0 AND (is_barred OR held_until IS NOT NULL OR has_queue) THEN
        SELECT t.reply, t.number, t.ahead, t.offer INTO reply, number, ahead, offer FROM
          pg_temp.lock_slot_turn(space, of_queue, pg_temp.lock_slot_of(lock_key), is_barred OR held_until IS NOT NULL, caller, polling,
            since_us, permits[i], moment) t;
      ELSIF is_barred OR held_until IS NOT NULL AND NOT (is_shared AND is_reader) THEN
        reply := 'held'; number := coalesce(pg_temp.lock_micros(held_until - moment), 0);
        IF has_queue OR since_us > 0 THEN
          SELECT w.reply, w.ahead INTO reply, ahead FROM
            pg_temp.lock_wait(lock_key, is_shared, caller, polling, since_us, is_reader, moment) w;
        END IF;
      ELSIF has_queue THEN
        SELECT t.reply, t.number, t.ahead INTO reply, number, ahead FROM
          pg_temp.lock_turn(space, lock_key, held_until, caller, polling, since_us, is_reader, moment) t;
      END IF;
      IF reply IS NULL THEN
        number := last_token;
        -- A reader joins those that hold the lock, with the fence as it stands.
        IF held_until IS NULL THEN number := greatest(numbers[i], last_token + 1) + tokens[i] - 1; END IF;
        IF number > @MAX_TOKEN@ THEN
          reply := 'used_up';
        ELSE
          reply := 'granted'; is_vote := true;
          PERFORM pg_temp.lock_hold(space, fence_id, number, lock_key, owner_id, new_end, is_reader, is_shared, moment);
          IF has_queue AND since_us > 0 AND permits[i] > 0 THEN
            PERFORM pg_temp.lock_slot_changed(space, of_queue, 'leave', caller, polling, since_us, permits[i], moment);
          ELSIF has_queue AND since_us > 0 THEN
            PERFORM pg_temp.lock_acquired(lock_key, caller, moment);
          END IF;
          IF is_reader AND NOT is_shared AND has_queue THEN PERFORM pg_temp.lock_let_readers_in(space, lock_key, moment); END IF;
        END IF;
      END IF;

    ELSIF kind = 'confirm' THEN
      IF is_ours AND last_token <= numbers[i] THEN
        reply := 'confirmed'; is_vote := true;
        PERFORM pg_temp.lock_count(space, fence_id, numbers[i]);
      ELSE
        reply := 'refused'; number := last_token;
      END IF;

    ELSIF kind IN ('extend', 'downgrade') THEN
      reply := 'gone';
      IF is_ours THEN
        reply := 'kept'; is_vote := true;
        IF kind = 'downgrade' AND NOT is_shared THEN
          PERFORM pg_temp.lock_downgrade(lock_key, owner_id, held_until);
          IF has_queue THEN PERFORM pg_temp.lock_let_readers_in(space, lock_key, moment); END IF;
          is_shared := true;
        END IF;
        PERFORM pg_temp.lock_prolong(lock_key, owner_id, new_end, is_shared, moment);
        IF is_shared AND has_queue AND pg_temp.lock_writer_waits(lock_key, NULL, NULL, moment) THEN reply := 'barred'; END IF;
      END IF;

    ELSIF kind = 'replace' THEN
      IF is_ours AND (is_reader OR NOT is_shared) THEN
        reply := 'kept'; is_vote := true;
      ELSIF is_barred OR held_until IS NOT NULL AND NOT (is_shared AND is_reader) THEN
        reply := 'gone';
      ELSE
        -- Readers that join one that is put back after a writer had the lock must not have the token of that writer.
        last_token := CASE
          WHEN is_reader AND held_until IS NULL AND last_token > numbers[i] THEN last_token + 1
          ELSE greatest(last_token, numbers[i]) END;
        IF last_token > @MAX_TOKEN@ THEN
          reply := 'used_up';
        ELSE
          reply := 'kept'; is_vote := true;
          PERFORM pg_temp.lock_hold(space, fence_id, last_token, lock_key, owner_id, new_end, is_reader, is_shared, moment);
          IF has_queue AND permits[i] > 0 THEN
            PERFORM pg_temp.lock_slot_changed(space, of_queue, 'release', caller, polling, since_us, permits[i], moment);
          END IF;
        END IF;
      END IF;

    ELSE
      -- A release: 'release' leaves the caller's position in the queue alone, 'leave' gives it up, 'keep' keeps it. Or 'leave_queue'.
      reply := CASE WHEN kind = 'leave_queue' THEN 'left' WHEN is_ours THEN 'released' ELSE 'not_owner' END;
      IF is_ours THEN
        IF NOT is_shared THEN
          PERFORM pg_temp.lock_free(lock_key);
          held_until := NULL;
        ELSIF NOT pg_temp.lock_remove_reader(lock_key, owner_id, moment) THEN
          held_until := NULL;
        END IF;
      END IF;
      IF permits[i] > 0 AND (has_queue OR kind = 'keep') THEN
        PERFORM pg_temp.lock_slot_changed(space, of_queue, kind, caller, polling, since_us, permits[i], moment);
      ELSIF has_queue OR kind = 'keep' THEN
        PERFORM pg_temp.lock_released(space, lock_key, held_until IS NOT NULL, held_until IS NOT NULL AND is_shared, kind,
          caller, polling, since_us, is_reader, moment);
      END IF;
    END IF;
    RETURN NEXT;
  END LOOP;
  is_vote := pg_temp.lock_end(memory, is_vote);
END $$;
