-- The queue of the waiting room: the waiters of other processes, ordered by when they began to wait. And its reservations: when a lock is
-- free, it is reserved for the first of them for a moment, then for the second, and so on. Both expire.

-- Not all waiters with a reservation need be woken: if those before one are frozen, and it does not know, its own passes as well.
CREATE FUNCTION pg_temp.lock_is_woken(before integer, is_last boolean) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT before IN (0, 1, 2, 4) OR is_last
$$;

-- How many reservations have passed. Limited, or a clock that is set back by years would be an error.
CREATE FUNCTION pg_temp.lock_passed(began timestamptz, moment timestamptz) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
  SELECT greatest(-1, least(1000000, floor(pg_temp.lock_micros(moment - began) / @RESERVATION_US@.0)))::integer
$$;

-- Ends the reservations of a lock, of which `count` have passed. Removes those who knew of theirs and did not come: they are frozen, or
-- do not want the lock.
CREATE FUNCTION pg_temp.lock_end_reservations(lock_key text, count integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  WITH ended AS (DELETE FROM locks.reservation r WHERE r.key = lock_key RETURNING r.*)
  DELETE FROM locks.waiter w USING ended e, unnest(e.waiters[:count], e.knows[:count]) AS passed (waiter, knew)
    WHERE w.key = lock_key AND w.waiter = passed.waiter AND passed.knew AND w.waiter <> ALL (e.late);
END $$;

-- A queue in which nobody waits would be looked at in vain.
CREATE FUNCTION pg_temp.lock_drop_queue(lock_key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM locks.queue q WHERE q.key = lock_key AND NOT EXISTS (SELECT FROM locks.waiter w WHERE w.key = lock_key)
    AND NOT EXISTS (SELECT FROM locks.reservation r WHERE r.key = lock_key);
END $$;

-- Drops what has expired, and those that let their reservation of this lock pass. False if nothing is left.
CREATE FUNCTION pg_temp.lock_expire_queue(lock_key text, moment timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE until timestamptz; r locks.reservation; count integer := 0;
BEGIN
  SELECT q.expires INTO until FROM locks.queue q WHERE q.key = lock_key;
  IF NOT FOUND THEN RETURN false; END IF;
  IF until <= moment THEN DELETE FROM locks.waiter w WHERE w.key = lock_key; END IF;
  SELECT * INTO r FROM locks.reservation WHERE key = lock_key;
  IF FOUND THEN
    IF moment < r.began + interval '@RESERVED_TTL@ ms' THEN
      count := cardinality(r.waiters);
      IF pg_temp.lock_passed(r.began, moment) < count THEN RETURN true; END IF;
    END IF;
    PERFORM pg_temp.lock_end_reservations(lock_key, count);
  END IF;
  RETURN EXISTS (SELECT FROM locks.waiter w WHERE w.key = lock_key)
    OR EXISTS (SELECT FROM locks.reservation WHERE key = lock_key);
END $$;

-- For which waiter the lock is reserved, if it is; for how many microseconds it is for any; for how many before it is for the caller,
-- or for nobody, if it never is for the caller; and how many reservations have passed.
CREATE FUNCTION pg_temp.lock_reservation(
  lock_key text, caller uuid, moment timestamptz,
  OUT waiter uuid, OUT remaining bigint, OUT until_caller bigint, OUT passed integer
) LANGUAGE plpgsql AS $$
DECLARE r locks.reservation; place integer;
BEGIN
  SELECT * INTO r FROM locks.reservation WHERE key = lock_key;
  IF NOT FOUND THEN RETURN; END IF;
  passed := pg_temp.lock_passed(r.began, moment);
  waiter := r.waiters[passed + 1];
  remaining := pg_temp.lock_micros(r.began - moment) + cardinality(r.waiters) * @RESERVATION_US@;
  place := array_position(r.waiters, caller);
  until_caller := CASE
    WHEN place > passed + 1 THEN pg_temp.lock_micros(r.began - moment) + (place - 1) * @RESERVATION_US@
    ELSE remaining END;
END $$;

-- Enters the queue. Returns how many are ahead, and whether the caller had no position or let its reservation pass; or nothing if there is
-- no room.
CREATE FUNCTION pg_temp.lock_enter(
  lock_key text, caller uuid, polling boolean, since_us bigint, is_reader boolean, moment timestamptz,
  OUT ahead integer, OUT anew boolean
) LANGUAGE plpgsql AS $$
DECLARE total integer;
BEGIN
  INSERT INTO locks.queue VALUES (lock_key, moment + interval '@QUEUE_TTL@ ms')
    ON CONFLICT (key) DO UPDATE SET expires = excluded.expires;
  -- A waiter that is heard of after its reservation has passed is alive, and keeps its position.
  UPDATE locks.reservation r SET late = r.late || caller
    WHERE r.key = lock_key AND caller = ANY (r.waiters[:pg_temp.lock_passed(r.began, moment)])
      AND caller <> ALL (r.late);
  anew := FOUND OR NOT EXISTS (SELECT FROM locks.waiter w WHERE w.key = lock_key AND w.waiter = caller);
  INSERT INTO locks.waiter AS w VALUES (lock_key, since_us, is_reader, polling, caller)
    ON CONFLICT (key, waiter) DO UPDATE SET since = excluded.since, reads = excluded.reads, polls = excluded.polls
      WHERE (w.since, w.reads, w.polls) <> (excluded.since, excluded.reads, excluded.polls);
  SELECT count(*) FILTER (WHERE (w.since, w.reads, w.polls, w.waiter) < (since_us, is_reader, polling, caller)), count(*)
    INTO ahead, total FROM locks.waiter w WHERE w.key = lock_key;
  -- The youngest goes: who has waited for longer must not be pushed out by newcomers.
  IF total > @MAX_WAITERS@ THEN
    DELETE FROM locks.waiter w USING (
      SELECT y.waiter FROM locks.waiter y WHERE y.key = lock_key
        ORDER BY y.since DESC, y.reads DESC, y.polls DESC, y.waiter DESC LIMIT 1
    ) AS youngest WHERE w.key = lock_key AND w.waiter = youngest.waiter;
    -- If that is the caller, it has no position.
    ahead := nullif(ahead, total - 1);
  END IF;
END $$;

-- Reserves the free lock for the first waiters, and wakes some of them. Those that nobody listens for are removed. The caller, if it
-- waits, need not be woken: this is its request.
CREATE FUNCTION pg_temp.lock_offer(space text, lock_key text, caller uuid, moment timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  entry record; is_woken boolean; total integer; gone integer := 0; now_reserved uuid[] := '{}'; now_knows boolean[] := '{}';
BEGIN
  SELECT count(*) INTO total FROM locks.waiter w WHERE w.key = lock_key;
  FOR entry IN
    SELECT w.waiter, w.polls FROM locks.waiter w WHERE w.key = lock_key
      ORDER BY w.since, w.reads, w.polls, w.waiter LIMIT @MAX_RESERVATIONS@ + @MAX_GONE@
  LOOP
    EXIT WHEN cardinality(now_reserved) >= least(total, @MAX_RESERVATIONS@) OR gone >= @MAX_GONE@;
    is_woken := pg_temp.lock_is_woken(cardinality(now_reserved), cardinality(now_reserved) + 1 = least(total, @MAX_RESERVATIONS@));
    IF is_woken AND NOT entry.polls AND entry.waiter IS DISTINCT FROM caller
      AND NOT pg_temp.lock_wake(space, entry.waiter, lock_key, cardinality(now_reserved)::text) THEN
      DELETE FROM locks.waiter w WHERE w.key = lock_key AND w.waiter = entry.waiter;
      total := total - 1; gone := gone + 1;
    ELSE
      now_reserved := now_reserved || entry.waiter; now_knows := now_knows || (is_woken OR entry.polls);
    END IF;
  END LOOP;
  IF now_reserved <> '{}' THEN
    INSERT INTO locks.reservation VALUES (lock_key, moment, now_reserved, now_knows)
      ON CONFLICT (key) DO UPDATE SET began = excluded.began, waiters = excluded.waiters, knows = excluded.knows, late = '{}';
  ELSE
    PERFORM pg_temp.lock_end_reservations(lock_key, 0);
    PERFORM pg_temp.lock_drop_queue(lock_key);
  END IF;
END $$;
