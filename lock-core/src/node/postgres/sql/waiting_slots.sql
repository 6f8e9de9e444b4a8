-- The waiting room of permits. The slots of a resource have one queue, and none is kept for anybody: the first waiters, as many as there
-- are free slots, may each take any of them, and another one is proposed to each. So nodes to which releases come in different orders let
-- the same waiters in. An offer is the slot that is proposed and then those that are free, of those that the waiter may have: '3,1,3'.

CREATE FUNCTION pg_temp.lock_offer_of(proposed integer, free integer[], most integer) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT proposed || ',' || string_agg(f.slot::text, ',' ORDER BY f.slot) FROM unnest(free) f (slot) WHERE f.slot < most
$$;

CREATE FUNCTION pg_temp.lock_slot_key(of_queue text, slot integer) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT left(of_queue, -1) || slot || '}'
$$;

CREATE FUNCTION pg_temp.lock_slot_of(lock_key text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
  SELECT substring(lock_key FROM '\{([0-9]+)\}$')::integer
$$;

-- Pairs the first waiters with the free slots, and tells those for which something has changed; but not the caller, which hears of it by
-- the reply. Those that were told and did not come in time, and those that nobody listens for, lose their position. Some of the others
-- are told when it is their turn if none of the first come. A slot that was freed counts as free, although it is somebody's still.
CREATE FUNCTION pg_temp.lock_pair(space text, of_queue text, caller uuid, freed integer, moment timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  most integer; all_free integer[]; rest integer[]; entry record; is_caller boolean; stays boolean; next_offer text;
  has_news boolean := false; followers uuid[] := '{}'; follower uuid; place integer;
BEGIN
  SELECT max(f.permits) INTO most FROM (
    SELECT w.permits FROM locks.waiter w WHERE w.key = of_queue ORDER BY w.since, w.reads, w.polls, w.waiter LIMIT @MAX_PAIRED@) f;
  IF most IS NULL THEN RETURN; END IF;
  SELECT s.free INTO all_free FROM pg_temp.lock_slots(of_queue, most, moment) s;
  IF freed < most AND freed <> ALL (all_free) THEN
    all_free := ARRAY(SELECT f.slot FROM unnest(all_free || freed) f (slot) ORDER BY f.slot);
  END IF;
  rest := all_free;
  FOR entry IN
    SELECT w.waiter, w.polls, w.permits, w.called, w.offer FROM locks.waiter w WHERE w.key = of_queue
      ORDER BY w.since, w.reads, w.polls, w.waiter LIMIT @MAX_PAIRED@
  LOOP
    is_caller := entry.waiter IS NOT DISTINCT FROM caller;
    IF rest = '{}' OR rest[1] >= entry.permits THEN
      IF entry.called IS NOT NULL THEN
        UPDATE locks.waiter w SET called = NULL, offer = NULL WHERE w.key = of_queue AND w.waiter = entry.waiter;
      END IF;
      IF NOT entry.polls AND NOT is_caller THEN followers := followers || entry.waiter; END IF;
      CONTINUE;
    END IF;
    next_offer := pg_temp.lock_offer_of(rest[1], all_free, entry.permits);
    stays := is_caller OR entry.called IS NULL OR moment < entry.called + interval '@RESERVATION_US@ microseconds';
    -- The clock was set back since: it is told again.
    IF entry.called > moment THEN entry.called := NULL; entry.offer := NULL; END IF;
    IF stays AND NOT is_caller AND NOT entry.polls AND entry.offer IS DISTINCT FROM next_offer THEN
      stays := pg_temp.lock_wake(space, entry.waiter, pg_temp.lock_slot_key(of_queue, rest[1]),
        '0' || substring(next_offer FROM '^[0-9]+(.*)$'));
    END IF;
    IF NOT stays THEN
      DELETE FROM locks.waiter w WHERE w.key = of_queue AND w.waiter = entry.waiter;
      CONTINUE;
    END IF;
    has_news := has_news OR entry.called IS NULL;
    IF is_caller OR entry.offer IS DISTINCT FROM next_offer THEN
      UPDATE locks.waiter w SET called = CASE WHEN is_caller THEN moment ELSE coalesce(entry.called, moment) END, offer = next_offer
        WHERE w.key = of_queue AND w.waiter = entry.waiter;
    END IF;
    rest := rest[2:];
  END LOOP;
  IF has_news THEN
    FOR follower, place IN
      SELECT f.waiter, f.place FROM unnest(followers) WITH ORDINALITY f (waiter, place) WHERE f.place IN (1, 2, 4) ORDER BY f.place
    LOOP
      PERFORM pg_temp.lock_wake(space, follower, pg_temp.lock_slot_key(of_queue, 0), (1 + (place - 1) / cardinality(all_free))::text);
    END LOOP;
  END IF;
END $$;

-- Enters the queue, as `lock_enter`. What the caller was told before counts only if it hears of this by the reply.
CREATE FUNCTION pg_temp.lock_enter_for_slot(
  of_queue text, caller uuid, polling boolean, since_us bigint, most integer, is_answered boolean, moment timestamptz,
  OUT ahead integer, OUT anew boolean
) LANGUAGE plpgsql AS $$
BEGIN
  SELECT e.ahead, e.anew INTO ahead, anew
    FROM pg_temp.lock_enter(of_queue, caller, polling, since_us, false, moment) e;
  UPDATE locks.waiter w SET permits = most, called = CASE WHEN is_answered AND NOT anew THEN w.called END,
    offer = CASE WHEN is_answered AND NOT anew THEN w.offer END WHERE w.key = of_queue AND w.waiter = caller;
END $$;

-- Whether the caller may be granted a slot. Returns nothing if it may. Otherwise the reply, with what it may take instead: see `Reply::Held`.
CREATE FUNCTION pg_temp.lock_slot_turn(
  space text, of_queue text, slot integer, is_refused boolean, caller uuid, polling boolean, since_us bigint, most integer,
  moment timestamptz, OUT reply text, OUT number bigint, OUT ahead integer, OUT offer text
) LANGUAGE plpgsql AS $$
DECLARE
  waits boolean := since_us > 0; is_known boolean := pg_temp.lock_expire_queue(of_queue, moment);
  anew boolean := false; all_free integer[]; held_for bigint; own text; place integer;
BEGIN
  IF is_known AND NOT waits THEN
    -- It passes nobody but those that are gone, or were told and did not come.
    PERFORM pg_temp.lock_pair(space, of_queue, NULL, NULL, moment);
    is_known := EXISTS (SELECT FROM locks.waiter w WHERE w.key = of_queue);
  END IF;
  IF NOT is_refused AND NOT (is_known AND
    (NOT waits OR EXISTS (SELECT FROM locks.waiter w WHERE w.key = of_queue AND w.waiter <> caller))) THEN RETURN; END IF;
  SELECT s.free, s.held_for INTO all_free, held_for FROM pg_temp.lock_slots(of_queue, most, moment) s;
  IF waits THEN
    SELECT e.ahead, e.anew INTO place, anew
      FROM pg_temp.lock_enter_for_slot(of_queue, caller, polling, since_us, most, true, moment) e;
    PERFORM pg_temp.lock_pair(space, of_queue, caller, NULL, moment);
    SELECT w.offer INTO own FROM locks.waiter w WHERE w.key = of_queue AND w.waiter = caller;
    IF NOT is_refused AND own IS NOT NULL AND NOT EXISTS (
      SELECT FROM locks.waiter w WHERE w.key = of_queue AND w.waiter <> caller AND split_part(w.offer, ',', 1)::integer = slot
        AND w.permits <= split_part(own, ',', 1)::integer) THEN RETURN; END IF;
  ELSIF NOT is_known AND all_free <> '{}' THEN
    own := pg_temp.lock_offer_of(all_free[1], all_free, most);
  END IF;
  reply := CASE WHEN anew THEN 'held_anew' ELSE 'held' END;
  ahead := place; offer := own;
  number := CASE WHEN all_free = '{}' THEN held_for
    ELSE @RESERVATION_US@ * greatest(1, coalesce(place, 0) / cardinality(all_free)) END;
END $$;

-- A slot was taken, put back or released, or the caller leaves the queue, or keeps its position.
CREATE FUNCTION pg_temp.lock_slot_changed(
  space text, of_queue text, kind text, caller uuid, polling boolean, since_us bigint, most integer, moment timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE is_known boolean := pg_temp.lock_expire_queue(of_queue, moment);
BEGIN
  IF kind = 'keep' THEN
    PERFORM pg_temp.lock_enter_for_slot(of_queue, caller, polling, since_us, most, false, moment);
  ELSIF is_known AND kind IN ('leave', 'leave_queue') THEN
    DELETE FROM locks.waiter w WHERE w.key = of_queue AND w.waiter = caller;
  END IF;
  PERFORM pg_temp.lock_pair(space, of_queue, NULL, NULL, moment);
  PERFORM pg_temp.lock_drop_queue(of_queue);
END $$;

-- The holder of a slot was evicted. The first waiters are told, and again when the slot is free.
CREATE FUNCTION pg_temp.lock_slot_evicted(space text, of_queue text, lock_key text, was_held boolean, moment timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pg_temp.lock_expire_queue(of_queue, moment) THEN RETURN; END IF;
  PERFORM pg_temp.lock_pair(space, of_queue, NULL, pg_temp.lock_slot_of(lock_key), moment);
  IF was_held THEN UPDATE locks.waiter w SET called = NULL, offer = NULL WHERE w.key = of_queue AND w.called IS NOT NULL; END IF;
END $$;
