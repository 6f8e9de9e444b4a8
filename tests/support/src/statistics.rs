use std::collections::HashMap;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;

/// How often a server has executed each command since it started, inside scripts too.
///
/// # Errors
///
/// Those of the server.
pub async fn executed(connection: &mut MultiplexedConnection) -> RedisResult<HashMap<String, u64>> {
    let info: String = redis::cmd("INFO").arg("commandstats").query_async(connection).await?;
    Ok(info.lines().filter_map(parse).collect())
}

/// `cmdstat_evalsha:calls=7,usec=...`
fn parse(line: &str) -> Option<(String, u64)> {
    let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_statistics_is_parsed() {
        let line = "cmdstat_client|setinfo:calls=12,usec=5,usec_per_call=1.00,rejected_calls=0,failed_calls=0";
        assert_eq!(parse(line), Some(("client|setinfo".to_owned(), 12)));
        assert_eq!(parse("# Commandstats"), None);
    }
}
