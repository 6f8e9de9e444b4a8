-- The waiting room: who waits for a lock, for whom a free one is kept, and who is woken. This half may be wrong, lose everything, or be
-- absent: that costs turns and time, and never exclusion. It keeps locks from callers, and grants none: no function of the waiting room
-- reads or writes a table of the ledger.
--
-- `ledger.sql` and `evict.sql` call the functions of this file, which are about the queue of `waiting_queue.sql`.

-- The lock can be granted to the caller: it is free, or the caller would join those that read until `held_until`. Returns nothing if it is
-- the caller's turn. Otherwise the reply: for how many microseconds others keep the lock from the caller, and which position the
-- caller has in the queue, which it enters if it waits.
CREATE FUNCTION pg_temp.lock_turn(
  space text, lock_key text, held_until timestamptz, caller uuid, polling boolean, since_us bigint, is_reader boolean,
  moment timestamptz, OUT reply text, OUT number bigint, OUT ahead integer
) LANGUAGE plpgsql AS $$
DECLARE anew boolean := false; waits boolean := since_us > 0; turn record; first uuid;
BEGIN
  IF NOT pg_temp.lock_expire_queue(lock_key, moment) THEN RETURN; END IF;
  IF held_until IS NOT NULL THEN
    IF NOT pg_temp.lock_writer_waits(lock_key, caller, CASE WHEN waits THEN since_us END, moment) THEN RETURN; END IF;
    number := pg_temp.lock_micros(held_until - moment);
  ELSE
    SELECT * INTO turn FROM pg_temp.lock_reservation(lock_key, caller, moment);
    IF turn.waiter IS NULL THEN
      SELECT w.waiter INTO first FROM locks.waiter w WHERE w.key = lock_key
        ORDER BY w.since, w.reads, w.polls, w.waiter LIMIT 1;
      IF first IS NULL OR waits AND first = caller THEN RETURN; END IF;
      IF waits THEN
        SELECT p.ahead, p.anew INTO ahead, anew
          FROM pg_temp.lock_enter(lock_key, caller, polling, since_us, is_reader, moment) p;
      END IF;
      PERFORM pg_temp.lock_offer(space, lock_key, CASE WHEN waits THEN caller END, moment);
      SELECT * INTO turn FROM pg_temp.lock_reservation(lock_key, caller, moment);
    END IF;
    IF turn.waiter IS NULL OR waits AND turn.waiter = caller THEN RETURN; END IF;
    number := CASE WHEN waits THEN turn.until_caller ELSE turn.remaining END;
  END IF;
  IF waits AND ahead IS NULL THEN
    SELECT p.ahead, p.anew INTO ahead, anew
      FROM pg_temp.lock_enter(lock_key, caller, polling, since_us, is_reader, moment) p;
  END IF;
  reply := CASE WHEN anew THEN 'held_anew' ELSE 'held' END;
END $$;

-- The lock cannot be granted to the caller. One that waits enters the queue. Returns the reply, and which position the caller has.
CREATE FUNCTION pg_temp.lock_wait(
  lock_key text, is_shared boolean, caller uuid, polling boolean, since_us bigint, is_reader boolean, moment timestamptz,
  OUT reply text, OUT ahead integer
) LANGUAGE plpgsql AS $$
DECLARE anew boolean := false;
BEGIN
  PERFORM pg_temp.lock_expire_queue(lock_key, moment);
  IF since_us > 0 THEN
    SELECT p.ahead, p.anew INTO ahead, anew
      FROM pg_temp.lock_enter(lock_key, caller, polling, since_us, is_reader, moment) p;
    IF ahead IS NOT NULL AND NOT is_reader AND is_shared THEN PERFORM pg_temp.lock_hear(lock_key, caller, moment); END IF;
  END IF;
  reply := CASE WHEN anew THEN 'held_anew' ELSE 'held' END;
END $$;

-- The lock is acquired. A caller that waited needs no position any longer, and those that let their reservation pass lose theirs.
CREATE FUNCTION pg_temp.lock_acquired(lock_key text, caller uuid, moment timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE turn record;
BEGIN
  DELETE FROM locks.waiter w WHERE w.key = lock_key AND w.waiter = caller;
  SELECT * INTO turn FROM pg_temp.lock_reservation(lock_key, caller, moment);
  IF turn.passed IS NOT NULL THEN PERFORM pg_temp.lock_end_reservations(lock_key, turn.passed); END IF;
  PERFORM pg_temp.lock_drop_queue(lock_key);
END $$;

-- What a release, or leaving the queue, does to the queue. What is held is what is held afterwards.
CREATE FUNCTION pg_temp.lock_released(
  space text, lock_key text, is_held boolean, is_shared boolean, kind text, caller uuid, polling boolean,
  since_us bigint, is_reader boolean, moment timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE is_known boolean := pg_temp.lock_expire_queue(lock_key, moment); makes_way boolean; turn record;
BEGIN
  IF kind = 'keep' THEN
    PERFORM pg_temp.lock_enter(lock_key, caller, polling, since_us, is_reader, moment);
  ELSIF NOT is_known THEN
    PERFORM pg_temp.lock_drop_queue(lock_key);
    RETURN;
  ELSIF kind IN ('leave', 'leave_queue') THEN
    DELETE FROM locks.waiter w WHERE w.key = lock_key AND w.waiter = caller RETURNING NOT w.reads AND is_shared INTO makes_way;
    SELECT * INTO turn FROM pg_temp.lock_reservation(lock_key, caller, moment);
    IF turn.waiter = caller THEN PERFORM pg_temp.lock_end_reservations(lock_key, 0); END IF;
    IF makes_way THEN PERFORM pg_temp.lock_let_readers_in(space, lock_key, moment); END IF;
  END IF;
  SELECT * INTO turn FROM pg_temp.lock_reservation(lock_key, caller, moment);
  IF NOT is_held AND turn.waiter IS NULL THEN
    -- The process may have released for a caller that does not wait.
    PERFORM pg_temp.lock_offer(space, lock_key, CASE WHEN kind <> 'release' THEN caller END, moment);
  END IF;
END $$;

-- Readers hold the lock: those at the head of the queue join them. The writer behind them was heard while it could not yet be noted.
CREATE FUNCTION pg_temp.lock_let_readers_in(space text, lock_key text, moment timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE entry record;
BEGIN
  FOR entry IN
    SELECT w.waiter, w.reads, w.polls FROM locks.waiter w WHERE w.key = lock_key
      ORDER BY w.since, w.reads, w.polls, w.waiter LIMIT @MAX_WOKEN_READERS@
  LOOP
    IF NOT entry.reads THEN
      PERFORM pg_temp.lock_hear(lock_key, entry.waiter, moment);
      RETURN;
    END IF;
    IF NOT entry.polls AND NOT pg_temp.lock_wake(space, entry.waiter, lock_key, '0') THEN
      DELETE FROM locks.waiter w WHERE w.key = lock_key AND w.waiter = entry.waiter;
    END IF;
  END LOOP;
END $$;

-- A writer waits, and readers hold the lock.
CREATE FUNCTION pg_temp.lock_hear(lock_key text, writer uuid, moment timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM locks.heard h WHERE h.key = lock_key AND h.at < moment - interval '@WRITER_HEARD@ ms';
  INSERT INTO locks.heard VALUES (lock_key, writer, moment) ON CONFLICT (key, waiter) DO UPDATE SET at = excluded.at;
END $$;

-- Whether a writer waits that was heard lately: before a reader that waits since then; or any, if that is not given. One that is not heard
-- from may be dead, and would bar readers for as long as its position lasts.
CREATE FUNCTION pg_temp.lock_writer_waits(lock_key text, reader uuid, since_us bigint, moment timestamptz) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM locks.waiter w JOIN locks.heard h ON h.key = w.key AND h.waiter = w.waiter
      WHERE w.key = lock_key AND NOT w.reads AND h.at >= moment - interval '@WRITER_HEARD@ ms'
      AND (since_us IS NULL OR w.since < since_us OR w.since = since_us AND w.waiter <> reader)
  );
END $$;

-- The holders of a lock were evicted. Those that wait are woken. But while it is not free, it is reserved for none of them.
CREATE FUNCTION pg_temp.lock_evicted(space text, lock_key text, was_held boolean, moment timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE turn record;
BEGIN
  IF NOT pg_temp.lock_expire_queue(lock_key, moment) THEN RETURN; END IF;
  SELECT * INTO turn FROM pg_temp.lock_reservation(lock_key, NULL, moment);
  IF turn.waiter IS NULL THEN PERFORM pg_temp.lock_offer(space, lock_key, NULL, moment); END IF;
  IF was_held THEN PERFORM pg_temp.lock_end_reservations(lock_key, 0); END IF;
END $$;
