-- The queue of a lock: the waiters of other processes, ordered by when they began to wait. And its reservations: when the lock is
-- free, it is reserved for the first of them for a moment, then for the second, and so on. They decide for whom a free lock is kept,
-- never who holds it. Both expire.

-- The number of a waiter's channel, and of the advisory lock that it holds while it listens.
CREATE FUNCTION pg_temp.lock_listener(space text, who uuid) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT hashtextextended(space || ' ' || who, 0)
$$;

-- Wakes a waiter: tells it how many come before it. False if nobody listens for it: whoever does shares an advisory lock. The question is
-- one expression, so that nothing comes between: the lock is not kept, and a waiter that begins to listen is not held up.
CREATE FUNCTION pg_temp.lock_wake(space text, who uuid, lock_key text, before integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE listener bigint := pg_temp.lock_listener(space, who);
BEGIN
  IF pg_try_advisory_lock(listener) AND pg_advisory_unlock(listener) THEN RETURN false; END IF;
  PERFORM pg_notify('locks_' || listener, before || ' ' || lock_key);
  RETURN true;
END $$;

-- Not all waiters with a reservation need be woken: if those before one are frozen, and it does not know, its own passes as well.
CREATE FUNCTION pg_temp.lock_is_woken(before integer, is_last boolean) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT before IN (0, 1, 2, 4) OR is_last
$$;

-- How many reservations have passed.
CREATE FUNCTION pg_temp.lock_passed(began timestamptz, moment timestamptz) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
  SELECT floor(pg_temp.lock_micros(moment - began) / @RESERVATION_US@.0)::integer
$$;

-- Ends the reservations of a lock, of which `count` have passed. Removes those who knew of theirs and did not come: they are frozen, or
-- do not want the lock.
CREATE FUNCTION pg_temp.lock_end_reservations(of_queue text, lock_key text, count integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  WITH ended AS (DELETE FROM locks.reservation r WHERE r.queue = of_queue AND r.key = lock_key RETURNING r.*)
  DELETE FROM locks.waiter w USING ended e, unnest(e.waiters[:count], e.knows[:count]) AS passed (waiter, knew)
    WHERE w.key = of_queue AND w.waiter = passed.waiter AND passed.knew AND w.waiter <> ALL (e.late);
END $$;

-- A queue in which nobody waits would be looked at in vain.
CREATE FUNCTION pg_temp.lock_drop_queue(of_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM locks.queue q WHERE q.key = of_queue AND NOT EXISTS (SELECT FROM locks.waiter w WHERE w.key = of_queue)
    AND NOT EXISTS (SELECT FROM locks.reservation r WHERE r.queue = of_queue);
END $$;

-- Drops what has expired, and those that let their reservation of this lock pass. False if nothing is left.
CREATE FUNCTION pg_temp.lock_expire_queue(of_queue text, lock_key text, moment timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE until timestamptz; r locks.reservation; count integer := 0;
BEGIN
  SELECT q.expires INTO until FROM locks.queue q WHERE q.key = of_queue;
  IF NOT FOUND THEN RETURN false; END IF;
  IF until <= moment THEN DELETE FROM locks.waiter w WHERE w.key = of_queue; END IF;
  SELECT * INTO r FROM locks.reservation WHERE queue = of_queue AND key = lock_key;
  IF FOUND THEN
    IF moment < r.began + interval '@RESERVED_TTL@ ms' THEN
      count := cardinality(r.waiters);
      IF pg_temp.lock_passed(r.began, moment) < count THEN RETURN true; END IF;
    END IF;
    PERFORM pg_temp.lock_end_reservations(of_queue, lock_key, count);
  END IF;
  RETURN EXISTS (SELECT FROM locks.waiter w WHERE w.key = of_queue)
    OR EXISTS (SELECT FROM locks.reservation WHERE queue = of_queue);
END $$;

-- For which waiter the lock is reserved, if it is; for how many microseconds it is for any; for how many before it is for the caller,
-- or for nobody, if it never is for the caller; and how many reservations have passed.
CREATE FUNCTION pg_temp.lock_reservation(
  of_queue text, lock_key text, caller uuid, moment timestamptz,
  OUT waiter uuid, OUT remaining bigint, OUT until_caller bigint, OUT passed integer
) LANGUAGE plpgsql AS $$
DECLARE r locks.reservation; place integer;
BEGIN
  SELECT * INTO r FROM locks.reservation WHERE queue = of_queue AND key = lock_key;
  IF NOT FOUND THEN RETURN; END IF;
  passed := pg_temp.lock_passed(r.began, moment);
  waiter := r.waiters[passed + 1];
  remaining := pg_temp.lock_micros(r.began - moment) + cardinality(r.waiters) * @RESERVATION_US@;
  place := array_position(r.waiters, caller);
  until_caller := CASE
    WHEN place > passed + 1 THEN pg_temp.lock_micros(r.began - moment) + (place - 1) * @RESERVATION_US@
    ELSE remaining END;
END $$;

-- Enters the queue. Returns how many are ahead and how many behind, and whether the caller had no position or let its reservation pass;
-- or nothing if there is no room.
CREATE FUNCTION pg_temp.lock_enter(
  of_queue text, lock_key text, caller uuid, polling boolean, since_us bigint, is_reader boolean, moment timestamptz,
  OUT ahead integer, OUT behind integer, OUT anew boolean
) LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO locks.queue VALUES (of_queue, moment + interval '@QUEUE_TTL@ ms')
    ON CONFLICT (key) DO UPDATE SET expires = excluded.expires;
  -- A waiter that is heard of after its reservation has passed is alive, and keeps its position.
  UPDATE locks.reservation r SET late = r.late || caller
    WHERE r.queue = of_queue AND r.key = lock_key AND caller = ANY (r.waiters[:pg_temp.lock_passed(r.began, moment)])
      AND caller <> ALL (r.late);
  anew := FOUND OR NOT EXISTS (SELECT FROM locks.waiter w WHERE w.key = of_queue AND w.waiter = caller);
  INSERT INTO locks.waiter AS w VALUES (of_queue, since_us, is_reader, polling, caller)
    ON CONFLICT (key, waiter) DO UPDATE SET since = excluded.since, reads = excluded.reads, polls = excluded.polls
      WHERE (w.since, w.reads, w.polls) <> (excluded.since, excluded.reads, excluded.polls);
  SELECT count(*) FILTER (WHERE (w.since, w.reads, w.polls, w.waiter) < (since_us, is_reader, polling, caller)), count(*)
    INTO ahead, behind FROM locks.waiter w WHERE w.key = of_queue;
  IF behind > @MAX_WAITERS@ THEN
    DELETE FROM locks.waiter w USING (
      SELECT y.waiter FROM locks.waiter y WHERE y.key = of_queue
        ORDER BY y.since DESC, y.reads DESC, y.polls DESC, y.waiter DESC LIMIT 1
    ) AS youngest WHERE w.key = of_queue AND w.waiter = youngest.waiter;
    behind := behind - 1;
  END IF;
  behind := behind - ahead - 1;
  IF behind < 0 THEN ahead := NULL; behind := NULL; END IF;
END $$;

-- How many waiters lead the queue of a slot that have another slot reserved now.
CREATE FUNCTION pg_temp.lock_leaders(of_queue text, lock_key text, moment timestamptz) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE has_slot uuid[]; leader uuid; count integer := 0;
BEGIN
  IF of_queue = lock_key THEN RETURN 0; END IF;
  PERFORM pg_temp.lock_expire_queue(of_queue, r.key, moment) FROM locks.reservation r WHERE r.queue = of_queue AND r.key <> lock_key;
  has_slot := ARRAY(SELECT r.waiters[pg_temp.lock_passed(r.began, moment) + 1] FROM locks.reservation r
    WHERE r.queue = of_queue AND r.key <> lock_key);
  FOR leader IN
    SELECT w.waiter FROM locks.waiter w WHERE w.key = of_queue ORDER BY w.since, w.reads, w.polls, w.waiter
  LOOP
    EXIT WHEN leader <> ALL (has_slot);
    count := count + 1;
  END LOOP;
  RETURN count;
END $$;

-- Reserves the free lock for the first waiters, and wakes some of them. Those that nobody listens for are removed. The caller, if it
-- waits, need not be woken: this is its request.
CREATE FUNCTION pg_temp.lock_offer(space text, of_queue text, lock_key text, caller uuid, moment timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  leaders integer := pg_temp.lock_leaders(of_queue, lock_key, moment);
  entry record; is_woken boolean; total integer; gone integer := 0; now_reserved uuid[] := '{}'; now_knows boolean[] := '{}';
BEGIN
  SELECT count(*) - leaders INTO total FROM locks.waiter w WHERE w.key = of_queue;
  FOR entry IN
    SELECT w.waiter, w.polls FROM locks.waiter w WHERE w.key = of_queue
      ORDER BY w.since, w.reads, w.polls, w.waiter OFFSET leaders LIMIT @MAX_RESERVATIONS@ + @MAX_GONE@
  LOOP
    EXIT WHEN cardinality(now_reserved) >= least(total, @MAX_RESERVATIONS@) OR gone >= @MAX_GONE@;
    is_woken := pg_temp.lock_is_woken(cardinality(now_reserved), cardinality(now_reserved) + 1 = least(total, @MAX_RESERVATIONS@));
    IF is_woken AND NOT entry.polls AND entry.waiter IS DISTINCT FROM caller
      AND NOT pg_temp.lock_wake(space, entry.waiter, lock_key, cardinality(now_reserved)) THEN
      DELETE FROM locks.waiter w WHERE w.key = of_queue AND w.waiter = entry.waiter;
      total := total - 1; gone := gone + 1;
    ELSE
      now_reserved := now_reserved || entry.waiter; now_knows := now_knows || (is_woken OR entry.polls);
    END IF;
  END LOOP;
  IF now_reserved <> '{}' THEN
    INSERT INTO locks.reservation VALUES (of_queue, lock_key, moment, now_reserved, now_knows)
      ON CONFLICT (queue, key) DO UPDATE SET began = excluded.began, waiters = excluded.waiters, knows = excluded.knows, late = '{}';
  ELSE
    PERFORM pg_temp.lock_end_reservations(of_queue, lock_key, 0);
    PERFORM pg_temp.lock_drop_queue(of_queue);
  END IF;
END $$;

-- Nothing if the caller can have the lock. Otherwise the reply: for how many microseconds the lock is held, or kept for those before
-- the caller, and which position the caller has in the queue. A caller that waits, and has to, enters the queue.
CREATE FUNCTION pg_temp.lock_blocked(
  space text, of_queue text, lock_key text, owner_id uuid, held_until timestamptz, is_shared boolean, caller uuid, polling boolean,
  since_us bigint, is_reader boolean, moment timestamptz, OUT reply text, OUT number bigint, OUT ahead integer, OUT behind integer
) LANGUAGE plpgsql AS $$
DECLARE
  anew boolean := false;
  waits boolean := since_us > 0; is_held boolean := held_until IS NOT NULL;
  is_known boolean := pg_temp.lock_expire_queue(of_queue, lock_key, moment);
  is_barred boolean := (NOT is_held OR is_reader) AND pg_temp.lock_is_evicted(lock_key, owner_id, moment);
  turn record; first uuid;
BEGIN
  IF is_held THEN
    IF is_shared AND is_reader AND NOT is_barred AND NOT pg_temp.lock_writer_waits(
      lock_key, caller, CASE WHEN waits THEN since_us END, moment) THEN RETURN; END IF;
    number := pg_temp.lock_micros(held_until - moment);
  ELSIF is_barred THEN
    number := 0;
  ELSIF NOT is_known THEN
    RETURN;
  ELSE
    SELECT * INTO turn FROM pg_temp.lock_reservation(of_queue, lock_key, caller, moment);
    IF turn.waiter IS NULL THEN
      SELECT w.waiter INTO first FROM locks.waiter w WHERE w.key = of_queue
        ORDER BY w.since, w.reads, w.polls, w.waiter LIMIT 1;
      IF first IS NULL OR waits AND first = caller THEN RETURN; END IF;
      IF waits THEN
        SELECT p.ahead, p.behind, p.anew INTO ahead, behind, anew
          FROM pg_temp.lock_enter(of_queue, lock_key, caller, polling, since_us, is_reader, moment) p;
      END IF;
      PERFORM pg_temp.lock_offer(space, of_queue, lock_key, CASE WHEN waits THEN caller END, moment);
      SELECT * INTO turn FROM pg_temp.lock_reservation(of_queue, lock_key, caller, moment);
    END IF;
    IF turn.waiter IS NULL OR waits AND turn.waiter = caller THEN RETURN; END IF;
    number := CASE WHEN waits THEN turn.until_caller ELSE turn.remaining END;
  END IF;
  IF waits AND ahead IS NULL THEN
    SELECT p.ahead, p.behind, p.anew INTO ahead, behind, anew
      FROM pg_temp.lock_enter(of_queue, lock_key, caller, polling, since_us, is_reader, moment) p;
    IF ahead IS NOT NULL AND NOT is_reader AND is_shared THEN PERFORM pg_temp.lock_hear(lock_key, caller, moment); END IF;
  END IF;
  reply := CASE WHEN anew THEN 'held_anew' ELSE 'held' END;
END $$;

-- The lock is acquired. A caller that waited needs no position any longer, and those that let their reservation pass lose theirs.
CREATE FUNCTION pg_temp.lock_acquired(of_queue text, lock_key text, caller uuid, moment timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE turn record;
BEGIN
  DELETE FROM locks.waiter w WHERE w.key = of_queue AND w.waiter = caller;
  SELECT * INTO turn FROM pg_temp.lock_reservation(of_queue, lock_key, caller, moment);
  IF turn.passed IS NOT NULL THEN PERFORM pg_temp.lock_end_reservations(of_queue, lock_key, turn.passed); END IF;
  PERFORM pg_temp.lock_drop_queue(of_queue);
END $$;

-- What a release, or leaving the queue, does to the queue. What is held is what is held afterwards.
CREATE FUNCTION pg_temp.lock_released(
  space text, of_queue text, lock_key text, is_held boolean, is_shared boolean, kind text, caller uuid, polling boolean,
  since_us bigint, is_reader boolean, moment timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE is_known boolean := pg_temp.lock_expire_queue(of_queue, lock_key, moment); makes_way boolean; turn record;
BEGIN
  IF kind = 'keep' THEN
    PERFORM pg_temp.lock_enter(of_queue, lock_key, caller, polling, since_us, is_reader, moment);
  ELSIF NOT is_known THEN
    PERFORM pg_temp.lock_drop_queue(of_queue);
    RETURN;
  ELSIF kind IN ('leave', 'leave_queue') THEN
    DELETE FROM locks.waiter w WHERE w.key = of_queue AND w.waiter = caller RETURNING NOT w.reads AND is_shared INTO makes_way;
    SELECT * INTO turn FROM pg_temp.lock_reservation(of_queue, lock_key, caller, moment);
    IF turn.waiter = caller THEN PERFORM pg_temp.lock_end_reservations(of_queue, lock_key, 0); END IF;
    IF makes_way THEN PERFORM pg_temp.lock_let_readers_in(space, lock_key, moment); END IF;
  END IF;
  SELECT * INTO turn FROM pg_temp.lock_reservation(of_queue, lock_key, caller, moment);
  IF NOT is_held AND turn.waiter IS NULL THEN
    -- The process may have released for a caller that does not wait.
    PERFORM pg_temp.lock_offer(space, of_queue, lock_key, CASE WHEN kind <> 'release' THEN caller END, moment);
  END IF;
END $$;
