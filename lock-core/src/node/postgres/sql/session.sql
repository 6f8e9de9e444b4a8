-- What the other functions use of their session.
--
-- A function in SQL is parsed and planned again at every call, unless it is one expression without a query. All others are in PL/pgSQL.

-- Whether this is still the session in which these functions were made, which it need not be behind a pool of connections.
CREATE FUNCTION pg_temp.lock_is_session(session text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT current_setting('locks.session', true) IS NOT DISTINCT FROM session
$$;

CREATE FUNCTION pg_temp.lock_check_session(session text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pg_temp.lock_is_session(session) THEN RAISE EXCEPTION 'this is another session' USING ERRCODE = 'LK001'; END IF;
END $$;

-- Has the transaction wait for the disk, and for synchronous standbys, as far as the node was told to.
CREATE FUNCTION pg_temp.lock_sync() RETURNS text LANGUAGE sql AS $$
  SELECT set_config('synchronous_commit', current_setting('locks.commit'), true)
$$;

-- Whether no commit of this session waits for the disk.
CREATE FUNCTION pg_temp.lock_is_hasty() RETURNS boolean LANGUAGE sql STABLE AS $$ SELECT current_setting('locks.commit') = 'off' $$;

CREATE FUNCTION pg_temp.lock_micros(length interval) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT ceil(extract(epoch FROM length) * 1000000)::bigint
$$;
