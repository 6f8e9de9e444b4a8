-- Wakes waiters: see `wakeups.rs`, which listens.

-- The number of a waiter's channel, and of the advisory lock that it holds while it listens.
CREATE FUNCTION pg_temp.lock_listener(space text, who uuid) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT hashtextextended(space || ' ' || who, 0)
$$;

-- Wakes a waiter: tells it how many come before it, and which slots it may take. False if nobody listens for it: one that listens shares an
-- advisory lock. The question is one expression, so that nothing comes between: the lock is not kept, and a waiter that begins to
-- listen is not held up.
CREATE FUNCTION pg_temp.lock_wake(space text, who uuid, lock_key text, numbers text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE listener bigint := pg_temp.lock_listener(space, who);
BEGIN
  IF pg_try_advisory_lock(listener) AND pg_advisory_unlock(listener) THEN RETURN false; END IF;
  -- A session that listens and stays in a transaction lets the queue of all databases fill. When it is full, whatever notifies is rolled back,
  -- and with it the votes. Those who are not told come when their timers fire.
  IF pg_notification_queue_usage() > 0.9 THEN RETURN true; END IF;
  -- With the time, because a transaction sends equal messages once.
  PERFORM pg_notify('locks_' || listener, numbers || ' ' || lock_key || ' ' || extract(epoch FROM clock_timestamp()));
  RETURN true;
END $$;
