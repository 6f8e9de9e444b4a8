use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use super::convert::{argument, from_lua, to_lua};
use super::script::Script;
use crate::database::Database;
use crate::resp::Reply;

thread_local! {
    /// One for all servers that are simulated on this thread: it keeps nothing from one run of a script to the next.
    static INTERPRETER: RefCell<Interpreter> = RefCell::new(Interpreter::new().expect("the prelude is Lua"));
}

/// Compiles a script, unless it was compiled before.
///
/// # Errors
///
/// The reply to a script that does not compile.
pub(super) fn compile(script: &Script) -> Result<(), Reply> {
    INTERPRETER.with_borrow_mut(|interpreter| interpreter.function(script)).map(drop)
}

/// Runs a script on the keys of a server.
pub(super) fn run(
    script: &Script,
    keys: &[Vec<u8>],
    arguments: &[Vec<u8>],
    database: &mut Database,
    now: i64,
) -> Reply {
    INTERPRETER.with_borrow_mut(|interpreter| interpreter.run(script, keys, arguments, database, now))
}

/// Lua, with the environment of a Redis script.
struct Interpreter {
    lua: Lua,
    /// The globals of all scripts, which they cannot change.
    globals: Table,
    /// Runs a function with `KEYS` and `ARGV`; an error is its reply.
    run: Function,
    /// The scripts, compiled, by the hash of their code.
    functions: HashMap<String, Function>,
    server: Rc<RefCell<Server>>,
}

/// The server whose script is running.
#[derive(Default)]
struct Server {
    database: Database,
    /// The time on its clock, in microseconds.
    now: i64,
}

impl Interpreter {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::default())?;
        let server = Rc::new(RefCell::new(Server::default()));
        let running = Rc::clone(&server);
        let execute = lua.create_function(move |lua, words: MultiValue| {
            let reply = running.borrow_mut().execute(&words);
            to_lua(lua, &reply)
        })?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("@prelude");
        let (globals, run) = prelude.call(execute)?;
        Ok(Self { lua, globals, run, functions: HashMap::new(), server })
    }

    fn function(&mut self, script: &Script) -> Result<Function, Reply> {
        if let Some(function) = self.functions.get(&script.code_hash) {
            return Ok(function.clone());
        }
        let chunk = self.lua.load(&script.code).set_name("@user_script").set_environment(self.globals.clone());
        let function = chunk
            .into_function()
            .map_err(|error| Reply::error(format!("ERR Error compiling script (new function): {error}")))?;
        self.functions.insert(script.code_hash.clone(), function.clone());
        Ok(function)
    }

    fn run(
        &mut self,
        script: &Script,
        keys: &[Vec<u8>],
        arguments: &[Vec<u8>],
        database: &mut Database,
        now: i64,
    ) -> Reply {
        let function = match self.function(script) {
            Ok(function) => function,
            Err(error) => return error,
        };
        database.declarations.begin(keys);
        self.server.borrow_mut().enter(database, now);
        let reply = self.call(&function, keys, arguments);
        self.server.borrow_mut().leave(database);
        reply.unwrap_or_else(|error| Reply::error(format!("ERR {error}")))
    }

    fn call(&self, function: &Function, keys: &[Vec<u8>], arguments: &[Vec<u8>]) -> mlua::Result<Reply> {
        let table = |words: &[Vec<u8>]| {
            let table = self.lua.create_table_with_capacity(words.len(), 0)?;
            words.iter().try_for_each(|word| table.raw_push(self.lua.create_string(word)?))?;
            Ok::<_, mlua::Error>(table)
        };
        let reply: Value = self.run.call((function, table(keys)?, table(arguments)?))?;
        from_lua(&reply)
    }
}

impl Server {
    fn enter(&mut self, database: &mut Database, now: i64) {
        std::mem::swap(&mut self.database, database);
        self.now = now;
    }

    fn leave(&mut self, database: &mut Database) {
        std::mem::swap(&mut self.database, database);
    }

    /// Executes a command of a script.
    fn execute(&mut self, words: &MultiValue) -> Reply {
        let mut arguments = Vec::with_capacity(words.len());
        for word in words {
            let Some(word) = argument(word) else {
                return Reply::error("ERR Lua redis lib command arguments must be strings or integers");
            };
            arguments.push(word);
        }
        match arguments.split_first() {
            None => Reply::error("ERR Please specify at least one argument for this redis lib call"),
            Some((name, arguments)) => self.database.execute_in_script(name, arguments, self.now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(source: &str) -> Reply {
        let script = Script::new(source.as_bytes(), None).unwrap();
        script.run(&[b"k".to_vec()], &[b"a".to_vec()], &mut Database::default(), 0)
    }

    #[test]
    fn a_script_leaves_nothing_behind_but_what_it_wrote() {
        for source in ["x = 1", "return x", "string.x = 1", "redis.call = nil", "KEYS = {}"] {
            assert!(matches!(eval(source), Reply::Error(_)), "{source}");
        }
        assert_eq!(eval("KEYS[1] = 'b' return KEYS[1]"), Reply::text("b"));
        assert_eq!(eval("return KEYS[1] .. ARGV[1]"), Reply::text("ka"));
    }

    #[test]
    fn an_error_ends_a_script_and_keeps_what_it_wrote() {
        let mut database = Database::default();
        let source = b"redis.call('SET', KEYS[1], 'v') redis.call('HGET', KEYS[1], 'f') redis.call('DEL', KEYS[1])";
        let reply = Script::new(source, None).unwrap().run(&[b"k".to_vec()], &[], &mut database, 0);
        assert!(matches!(&reply, Reply::Error(error) if error.starts_with("WRONGTYPE ")), "{reply:?}");
        assert_eq!(database.store.get(b"k", 0).unwrap(), Some(&b"v"[..]));
    }

    #[test]
    fn what_is_not_lua_is_refused() {
        let error = Script::new(b"return return", None).unwrap_err();
        assert!(matches!(&error, Reply::Error(error) if error.starts_with("ERR Error compiling script")), "{error:?}");
    }
}
