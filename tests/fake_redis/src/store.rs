use std::collections::BTreeMap;
use std::sync::Arc;

use super::sorted_sets::SortedSet;

/// The keys of a server. Times are milliseconds on the server's own clock.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    keys: BTreeMap<Vec<u8>, Entry>,
}

/// The fields of a hash, by their names.
pub(super) type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    expires: Option<i64>,
}

#[derive(Clone, Debug)]
enum Value {
    Text(Vec<u8>),
    /// Never empty: the key is deleted with the last field. Shared with what is on the disk until it is written to: a node's
    /// record has thousands of fields.
    Hash(Arc<Fields>),
    /// Never empty: the key is deleted with the last member.
    SortedSet(SortedSet),
}

/// The key holds a value of another type.
#[derive(Debug)]
pub(super) struct WrongType;

impl Store {
    /// The string at a key.
    pub(super) fn get(&mut self, key: &[u8], now: i64) -> Result<Option<&[u8]>, WrongType> {
        match self.entry(key, now).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WrongType),
        }
    }

    /// Sets a key to a string, whatever it held before, and when it expires.
    pub(super) fn set(&mut self, key: &[u8], text: &[u8], expires: Option<i64>) {
        self.keys.insert(key.to_vec(), Entry { value: Value::Text(text.to_vec()), expires });
    }

    /// The fields of a hash; `None` if the key does not exist.
    pub(super) fn hash(&mut self, key: &[u8], now: i64) -> Result<Option<&Fields>, WrongType> {
        match self.entry(key, now).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Hash(fields)) => Ok(Some(fields)),
            Some(_) => Err(WrongType),
        }
    }

    /// One field of a hash.
    pub(super) fn field(&mut self, key: &[u8], name: &[u8], now: i64) -> Result<Option<&[u8]>, WrongType> {
        Ok(self.hash(key, now)?.and_then(|fields| fields.get(name)).map(Vec::as_slice))
    }

    /// Sets fields of a hash. Returns how many are new.
    pub(super) fn set_fields(
        &mut self,
        key: &[u8],
        fields: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
        now: i64,
    ) -> Result<i64, WrongType> {
        self.hash(key, now)?;
        let empty = || Entry { value: Value::Hash(Arc::default()), expires: None };
        let entry = self.keys.entry(key.to_vec()).or_insert_with(empty);
        let Value::Hash(hash) = &mut entry.value else { return Err(WrongType) };
        let (hash, mut new) = (Arc::make_mut(hash), 0);
        for (name, value) in fields {
            new += i64::from(hash.insert(name, value).is_none());
        }
        Ok(new)
    }

    /// Deletes fields of a hash. Returns how many there were.
    pub(super) fn delete_fields(&mut self, key: &[u8], names: &[Vec<u8>], now: i64) -> Result<usize, WrongType> {
        let hash = match self.entry(key, now).map(|entry| &mut entry.value) {
            None => return Ok(0),
            Some(Value::Hash(hash)) => Arc::make_mut(hash),
            Some(_) => return Err(WrongType),
        };
        let deleted = names.iter().filter(|name| hash.remove(name.as_slice()).is_some()).count();
        if hash.is_empty() {
            self.keys.remove(key);
        }
        Ok(deleted)
    }

    /// Reads or changes a sorted set: an empty one, if the key does not exist.
    pub(super) fn with_sorted_set<T>(
        &mut self,
        key: &[u8],
        now: i64,
        work: impl FnOnce(&mut SortedSet) -> T,
    ) -> Result<T, WrongType> {
        self.exists(key, now);
        let empty = || Entry { value: Value::SortedSet(SortedSet::default()), expires: None };
        let entry = self.keys.entry(key.to_vec()).or_insert_with(empty);
        let Value::SortedSet(set) = &mut entry.value else { return Err(WrongType) };
        let result = work(set);
        if set.is_empty() {
            self.keys.remove(key);
        }
        Ok(result)
    }

    /// Deletes a key. Returns whether it existed.
    pub(super) fn delete(&mut self, key: &[u8], now: i64) -> bool {
        self.exists(key, now) && self.keys.remove(key).is_some()
    }

    pub(super) fn exists(&mut self, key: &[u8], now: i64) -> bool {
        self.entry(key, now).is_some()
    }

    /// The remaining time to live of a key: -1 if it does not expire, -2 if it does not exist.
    pub(super) fn pttl(&mut self, key: &[u8], now: i64) -> i64 {
        self.entry(key, now).map_or(-2, |entry| entry.expires.map_or(-1, |expires| expires - now))
    }

    /// Sets when a key expires; a time that is not in the future deletes it. Returns whether the key existed.
    pub(super) fn expire(&mut self, key: &[u8], at: i64, now: i64) -> bool {
        let Some(entry) = self.entry(key, now) else { return false };
        entry.expires = Some(at);
        if at <= now {
            self.keys.remove(key);
        }
        true
    }

    /// When a key expires; `None` if it does not expire or does not exist.
    pub(super) fn expires(&mut self, key: &[u8], now: i64) -> Option<i64> {
        self.entry(key, now)?.expires
    }

    /// Moves one of the keys to another server, as it is. Returns whether there was one.
    pub(super) fn move_to(&mut self, other: &mut Self, which: usize) -> bool {
        let key = self.keys.keys().nth(which % self.keys.len().max(1)).cloned();
        let moved = key.and_then(|key| self.keys.remove_entry(&key));
        let was_one = moved.is_some();
        other.keys.extend(moved);
        was_one
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
    }

    /// The keys that have not expired, in order.
    pub(super) fn alive(&self, now: i64) -> impl Iterator<Item = &[u8]> {
        let alive = move |entry: &Entry| entry.expires.is_none_or(|expires| expires >= now);
        self.keys.iter().filter(move |(_, entry)| alive(entry)).map(|(key, _)| key.as_slice())
    }

    /// A key that has not expired. As in Redis, a key lives through the whole of its last millisecond.
    fn entry(&mut self, key: &[u8], now: i64) -> Option<&mut Entry> {
        if self.keys.get(key)?.expires.is_some_and(|expires| now > expires) {
            self.keys.remove(key);
        }
        self.keys.get_mut(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_ends_with_its_last_field_and_a_copy_of_it_does_not() {
        let mut store = Store::default();
        let field = |name: &str| (name.as_bytes().to_vec(), b"v".to_vec());
        assert_eq!(store.set_fields(b"h", [field("a"), field("b")], 1).unwrap(), 2);
        let mut copy = store.clone();
        assert_eq!(store.delete_fields(b"h", &[b"a".to_vec(), b"none".to_vec()], 1).unwrap(), 1);
        assert_eq!(store.delete_fields(b"h", &[b"b".to_vec()], 1).unwrap(), 1);
        assert!(!store.exists(b"h", 1) && store.delete_fields(b"h", &[], 1).unwrap() == 0);
        assert_eq!(copy.hash(b"h", 1).unwrap().map(BTreeMap::len), Some(2));
    }

    #[test]
    fn a_key_lives_through_its_last_millisecond() {
        let mut store = Store::default();
        store.set(b"k", b"v", Some(10));
        assert_eq!(store.pttl(b"k", 10), 0);
        assert_eq!(store.alive(10).count(), 1);
        assert_eq!((store.alive(11).count(), store.pttl(b"k", 11)), (0, -2));
    }
}
