//! The conversions between Lua and the protocol, as Redis makes them for clients of either version of the protocol.

use mlua::{Lua, Table, Value};

use crate::double;
use crate::resp::Reply;

/// A reply, as a script sees it.
pub(super) fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let single = |field: &str, text: &str| {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(field, text)?;
        Ok::<_, mlua::Error>(Value::Table(table))
    };
    Ok(match reply {
        Reply::Text(text) => Value::String(lua.create_string(text)?),
        Reply::Report(text) => Value::String(lua.create_string(text)?),
        Reply::Number(number) => Value::Number(float(*number)),
        Reply::Nil => Value::Boolean(false),
        Reply::Status(status) => single("ok", status)?,
        Reply::Error(error) => single("err", error)?,
        Reply::Double(number) => Value::String(lua.create_string(double::print(*number))?),
        Reply::List(items) | Reply::Push(items) | Reply::Several(items) => array(lua, items.iter())?,
        Reply::Scored(entries) => {
            let flat = entries.iter().flat_map(|(score, member)| [Reply::text(member), Reply::Double(*score)]);
            array(lua, flat.collect::<Vec<_>>().iter())?
        }
        Reply::Map(pairs) => array(lua, pairs.iter().flat_map(|(key, value)| [key, value]))?,
    })
}

fn array<'a>(lua: &Lua, items: impl Iterator<Item = &'a Reply>) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(items.size_hint().0, 0)?;
    for item in items {
        table.raw_push(to_lua(lua, item)?)?;
    }
    Ok(Value::Table(table))
}

/// What a script returned, as the client gets it.
pub(super) fn from_lua(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::String(text) => Reply::text(&*text.as_bytes()),
        Value::Integer(number) => Reply::Number(*number),
        Value::Number(number) => Reply::Number(truncated(*number)),
        Value::Boolean(true) => Reply::Number(1),
        Value::Table(table) => from_table(table)?,
        _ => Reply::Nil,
    })
}

/// An error, a status, or an array up to its first nil.
fn from_table(table: &Table) -> mlua::Result<Reply> {
    let text = |field: &str| {
        let text: Value = table.raw_get(field)?;
        // A line of the protocol.
        let line = |text: &mlua::String| text.to_string_lossy().replace(['\r', '\n'], " ");
        Ok::<_, mlua::Error>(text.as_string().map(line))
    };
    if let Some(error) = text("err")? {
        return Ok(Reply::Error(error));
    }
    if let Some(status) = text("ok")? {
        return Ok(Reply::Status(status.into()));
    }
    let mut items = Vec::new();
    loop {
        match table.raw_get(items.len() + 1)? {
            Value::Nil => return Ok(Reply::List(items)),
            item => items.push(from_lua(&item)?),
        }
    }
}

/// An argument of a command. `None` if it is neither a string nor a number.
pub(super) fn argument(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) if number.abs() < 100_000_000_000_000_000 => Some(number.to_string().into_bytes()),
        Value::Integer(number) => Some(double::print(float(*number)).into_bytes()),
        Value::Number(number) => Some(double::print(*number).into_bytes()),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "Lua has no other numbers")]
fn float(number: i64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, reason = "Redis truncates, too")]
fn truncated(number: f64) -> i64 {
    number as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn returned(source: &str) -> Reply {
        from_lua(&Lua::new().load(source).eval().unwrap()).unwrap()
    }

    #[test]
    fn a_script_returns_what_redis_makes_of_it() {
        let (number, text) = (Reply::Number, Reply::text);
        assert_eq!(returned("return 1.9"), number(1));
        assert_eq!(returned("return -1.9"), number(-1));
        assert_eq!(returned("return true"), number(1));
        assert_eq!([returned("return false"), returned("return nil")], [Reply::Nil, Reply::Nil]);
        assert_eq!(returned("return {1, 'a', nil, 3}"), Reply::List(vec![number(1), text("a")]));
        assert_eq!(returned("return {false, {2}}"), Reply::List(vec![Reply::Nil, Reply::List(vec![number(2)])]));
        assert_eq!(returned("return {ok = 'FINE', 1}"), Reply::Status("FINE".into()));
        assert_eq!(returned("return {err = 'CODE a\\nb'}"), Reply::error("CODE a b"));
    }

    #[test]
    fn a_script_sees_what_redis_shows_it() {
        let lua = Lua::new();
        let replies = [Reply::Nil, Reply::Status("OK".into()), Reply::error("ERR x"), Reply::Number(7)];
        let seen = to_lua(&lua, &Reply::List(replies.to_vec())).unwrap();
        let check = "local a = ... return a[1] == false and a[2].ok == 'OK' and a[3].err == 'ERR x' and a[4] == 7";
        assert!(lua.load(check).call::<bool>(seen).unwrap());
    }

    #[test]
    fn numbers_are_sent_to_commands_with_all_their_digits() {
        let lua = Lua::new();
        let sent = |source: &str| {
            let value = lua.load(source).eval().unwrap();
            argument(&value).map(|word| String::from_utf8(word).unwrap())
        };
        assert_eq!(sent("return 9007199254740991").as_deref(), Some("9007199254740991"));
        assert_eq!(sent("return 1.5").as_deref(), Some("1.5"));
        assert_eq!(sent("return 1e20").as_deref(), Some("1e+20"));
        assert_eq!(sent("return -20").as_deref(), Some("-20"));
        assert_eq!([sent("return {}"), sent("return true")], [None, None]);
    }
}
