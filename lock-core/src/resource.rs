use std::fmt;
use std::sync::Arc;

use crate::limits::{InvalidName, MAX_PERMITS, MAX_RESOURCE_LEN};

/// The valid name of a resource: 1 to 512 bytes of UTF-8 without control characters and braces.
///
/// Braces are excluded because Redis reads them as a hash tag, and because the keys of queues and of the node's record contain
/// them: no lock key can collide with either.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Resource(Arc<str>);

impl Resource {
    pub(crate) fn parse(resource: &str) -> Result<Self, InvalidName> {
        check(resource, 1)?;
        Ok(Self(resource.into()))
    }

    /// The name of a resource, or of one of its slots, which nobody can acquire by its name: `export{2}`.
    pub(crate) fn parse_with_slot(name: &str) -> Result<Self, InvalidName> {
        match split_slot(name) {
            Some((resource, slot)) if slot < MAX_PERMITS => Self::parse(resource).map(|resource| resource.slot(slot)),
            _ => Self::parse(name),
        }
    }

    /// A slot of the resource.
    pub(crate) fn slot(&self, slot: u32) -> Self {
        Self(slot_name(&self.0, slot).into())
    }

    /// The resource itself, if this is a slot of one.
    pub(crate) fn without_slot(&self) -> Self {
        split_slot(&self.0).map_or_else(|| self.clone(), |(resource, _)| Self(resource.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a slot of a resource is called: `export{2}`. No resource has braces, so it is not the name of another one.
pub(crate) fn slot_name(resource: &str, slot: u32) -> String {
    format!("{resource}{{{slot}}}")
}

/// The resource and the slot of the name of a slot. `waiting.lua` takes it apart in the same way.
pub(crate) fn split_slot(name: &str) -> Option<(&str, u32)> {
    let (resource, slot) = name.strip_suffix('}')?.rsplit_once('{')?;
    let number = slot.parse().ok()?;
    (name == slot_name(resource, number)).then_some((resource, number))
}

/// The 64-bit FNV-1a hash (Fowler, Noll, Vo; draft-eastlake-fnv).
pub(crate) fn hash(name: &str) -> u64 {
    let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Checks a key prefix by the rules for resource names, except that it may be empty.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), InvalidName> {
    check(prefix, 0)
}

/// Checks the name of a node, which may be an address with braces: it is not empty, and has no control characters.
pub(crate) fn check_node_name(name: &str) -> Result<(), InvalidName> {
    if name.is_empty() {
        return Err(InvalidName::Length { len: 0, min: 1 });
    }
    check_characters(name, char::is_control)
}

fn check(name: &str, min: usize) -> Result<(), InvalidName> {
    if name.len() < min || name.len() > MAX_RESOURCE_LEN {
        return Err(InvalidName::Length { len: name.len(), min });
    }
    check_characters(name, |c| c.is_control() || matches!(c, '{' | '}'))
}

fn check_characters(name: &str, is_invalid: impl Fn(char) -> bool) -> Result<(), InvalidName> {
    match name.char_indices().find(|(_, c)| is_invalid(*c)) {
        Some((at, character)) => Err(InvalidName::Character { character, at }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_1_to_512_bytes_without_control_characters_and_braces() {
        for good in ["a", "stock:42", "größe/1 2", &"x".repeat(512)] {
            assert_eq!(Resource::parse(good).unwrap().as_str(), good);
        }
        assert_eq!(Resource::parse(""), Err(InvalidName::Length { len: 0, min: 1 }));
        assert_eq!(Resource::parse(&"x".repeat(513)), Err(InvalidName::Length { len: 513, min: 1 }));
        assert_eq!(Resource::parse("a{b"), Err(InvalidName::Character { character: '{', at: 1 }));
        assert_eq!(Resource::parse("a}b"), Err(InvalidName::Character { character: '}', at: 1 }));
        assert_eq!(Resource::parse("a\nb"), Err(InvalidName::Character { character: '\n', at: 1 }));
        assert_eq!(Resource::parse("a\u{85}"), Err(InvalidName::Character { character: '\u{85}', at: 1 }));
    }

    #[test]
    fn a_slot_is_named_by_its_resource_and_a_number_below_100_in_braces() {
        for (name, resource) in [("export{0}", "export"), ("export{99}", "export"), ("export", "export")] {
            let parsed = Resource::parse_with_slot(name).unwrap();
            assert_eq!((parsed.as_str(), parsed.without_slot().as_str()), (name, resource));
        }
        for wrong in ["export{100}", "export{}", "export{02}", "export{+1}", "export{1}{2}", "{1}", "export{1}b", "a{b"]
        {
            assert!(Resource::parse_with_slot(wrong).is_err(), "{wrong}");
        }
        assert!(Resource::parse("export{0}").is_err(), "no resource can be a slot");
    }

    #[test]
    fn a_prefix_may_be_empty() {
        assert_eq!(check_prefix(""), Ok(()));
        assert_eq!(check_prefix("shop:"), Ok(()));
        assert!(check_prefix("{shop}").is_err());
    }
}
