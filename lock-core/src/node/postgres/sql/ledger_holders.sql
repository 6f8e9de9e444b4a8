-- The holders of the ledger: the lock itself, its readers and its fence. While readers hold a lock, it has no owner, and lives for as
-- long as the longest of them. Readers whose lock has an owner, or is gone, count for nothing, and the next one that begins to read deletes them.

-- Counts a fence up to its last token. Only if that exceeds what was written to the disk, `fence` is written, with tokens in reserve: of
-- what a vote writes, this alone is logged, and so this alone has the commit wait. A session that waits for the disk grants nothing from
-- the reserve of one that does not: it writes its own. A session that does not wait may use either.
CREATE FUNCTION pg_temp.lock_count(space text, fence_id integer, last_token bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE most bigint := least(last_token + @RESERVE@, @MAX_TOKEN@);
BEGIN
  UPDATE locks.counter c SET token = last_token
    WHERE c.keyspace = space AND c.fence = fence_id AND c.most >= last_token AND (c.is_on_disk OR pg_temp.lock_is_hasty());
  IF FOUND THEN RETURN; END IF;
  -- Never lowered: what it was may have been relied on.
  INSERT INTO locks.fence AS f VALUES (space, fence_id, most)
    ON CONFLICT (keyspace, fence) DO UPDATE SET token = greatest(f.token, excluded.token) RETURNING f.token INTO most;
  INSERT INTO locks.counter VALUES (space, fence_id, last_token, most, NOT pg_temp.lock_is_hasty())
    ON CONFLICT (keyspace, fence) DO UPDATE SET token = excluded.token, most = excluded.most, is_on_disk = excluded.is_on_disk;
END $$;

-- Frees a lock. Its row is kept for the next owner until the next sweep: to update a row takes a third less than to delete and insert one.
CREATE FUNCTION pg_temp.lock_free(lock_key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE locks.lock l SET expires = '-infinity' WHERE l.key = lock_key;
END $$;

-- Gives the owner a lock that is free; or one that readers hold, if it is a reader as well. Counts its fence.
CREATE FUNCTION pg_temp.lock_hold(
  space text, fence_id integer, last_token bigint, lock_key text, owner_id uuid, new_end timestamptz, is_reader boolean,
  is_shared boolean, moment timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_temp.lock_count(space, fence_id, last_token);
  IF is_shared THEN
    PERFORM pg_temp.lock_prolong(lock_key, owner_id, new_end, true, moment);
    RETURN;
  END IF;
  INSERT INTO locks.lock VALUES (lock_key, CASE WHEN is_reader THEN NULL ELSE owner_id END, new_end)
    ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, expires = excluded.expires;
  IF is_reader THEN
    DELETE FROM locks.reader r WHERE r.key = lock_key;
    INSERT INTO locks.reader VALUES (lock_key, owner_id, new_end);
  END IF;
END $$;

-- Prolongs the lock of an owner, or adds a reader. A longer remaining time stays: a request that was overtaken must not undo what a later
-- renewal has given, on which its holder relies.
CREATE FUNCTION pg_temp.lock_prolong(lock_key text, owner_id uuid, new_end timestamptz, is_shared boolean, moment timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE locks.lock l SET expires = new_end WHERE l.key = lock_key AND l.expires < new_end;
  IF is_shared THEN
    DELETE FROM locks.reader r WHERE r.key = lock_key AND r.expires <= moment;
    INSERT INTO locks.reader AS r VALUES (lock_key, owner_id, new_end)
      ON CONFLICT (key, owner) DO UPDATE SET expires = excluded.expires WHERE r.expires < excluded.expires;
  END IF;
END $$;

-- The writer becomes the first reader.
CREATE FUNCTION pg_temp.lock_downgrade(lock_key text, owner_id uuid, held_until timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE locks.lock l SET owner = NULL WHERE l.key = lock_key;
  DELETE FROM locks.reader r WHERE r.key = lock_key;
  INSERT INTO locks.reader VALUES (lock_key, owner_id, held_until);
END $$;

-- Removes a reader. Returns whether any is left; the lock then lives for as long as the longest of them.
CREATE FUNCTION pg_temp.lock_remove_reader(lock_key text, owner_id uuid, moment timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE longest timestamptz;
BEGIN
  DELETE FROM locks.reader r WHERE r.key = lock_key AND r.owner = owner_id;
  SELECT max(r.expires) INTO longest FROM locks.reader r WHERE r.key = lock_key AND r.expires > moment;
  IF longest IS NULL THEN
    PERFORM pg_temp.lock_free(lock_key);
    DELETE FROM locks.reader r WHERE r.key = lock_key;
    RETURN false;
  END IF;
  UPDATE locks.lock l SET expires = longest WHERE l.key = lock_key AND l.expires > longest;
  RETURN true;
END $$;

-- The slots of a resource below a number that nobody holds, and for how many microseconds the first of the others is held. The key of their
-- queue is that of a slot without its number.
CREATE FUNCTION pg_temp.lock_slots(of_queue text, most integer, moment timestamptz, OUT free integer[], OUT held_for bigint)
LANGUAGE plpgsql AS $$
BEGIN
  SELECT coalesce(array_agg(s.slot ORDER BY s.slot) FILTER (WHERE l.key IS NULL), '{}'), pg_temp.lock_micros(min(l.expires) - moment)
    INTO free, held_for FROM generate_series(0, most - 1) s (slot)
    LEFT JOIN locks.lock l ON l.key = left(of_queue, -1) || s.slot || '}' AND l.expires > moment;
END $$;
