//! Lifetimes, `where` clauses and opaque types of guarded functions.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{Debug, Display};

use lock_axum::{LockError, LockManager, distributed_lock};

struct Keys<'a, K: ?Sized>(&'a K);

impl<'a, K> Keys<'a, K>
where
    K: Display + ?Sized,
{
    #[distributed_lock(resource = "{self.0}:{suffix}", manager = locks)]
    async fn named<'b, T>(&self, locks: &'b LockManager, suffix: &'a str, value: T) -> Result<(&'a str, T), LockError>
    where
        T: Clone + 'b,
        'a: 'b,
    {
        Ok((suffix, value))
    }
}

#[distributed_lock(resource = "{key}", manager = locks)]
async fn elided(locks: &LockManager, key: Cow<'_, str>) -> Result<usize, LockError> {
    Ok(key.len())
}

#[distributed_lock(resource = "a", manager = locks)]
async fn borrowed<'a>(locks: &LockManager, key: &'a str) -> Result<&'a str, Box<dyn Error + Send + Sync>> {
    if key.is_empty() {
        return Err("empty".into());
    }
    let number: u32 = key.parse()?;
    Err(Box::new(std::io::Error::other(number.to_string())))
}

#[distributed_lock(resource = "{key}", manager = locks)]
async fn opaque(locks: &LockManager, key: impl Display + Send) -> Result<impl Iterator<Item = u8> + Debug, LockError> {
    Ok(key.to_string().into_bytes().into_iter())
}

#[distributed_lock(resource = "slots", manager = locks)]
async fn diverging<const COUNT: usize>(locks: &LockManager, slots: [u8; COUNT]) -> Result<(), LockError> {
    loop {
        std::future::ready(slots.len()).await;
    }
}

struct Locks<'a>(&'a LockManager);

/// Without a reference, the types of the parameters are checked.
#[distributed_lock(resource = "{key}", manager = locks.0)]
async fn by_value<'a, const N: usize>(
    locks: Locks<'a>,
    key: Cow<'_, str>,
    shown: Box<dyn Display + Send + 'a>,
    parse: fn(&str) -> [u8; N],
) -> Result<String, LockError> {
    Ok(format!("{shown} {:?}", parse(&key)))
}

fn main() {
    let _ = async |locks: LockManager| {
        Keys("a").named(&locks, "b", 1).await?;
        elided(&locks, "a".into()).await?;
        borrowed(&locks, "a").await?;
        opaque(&locks, 1).await?.count();
        by_value(Locks(&locks), "a".into(), Box::new(1), |_| [0; 2]).await?;
        diverging(&locks, [0; 2]).await?;
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    };
}
