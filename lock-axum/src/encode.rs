use std::fmt::Display;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// All bytes but `A-Za-z0-9-._~`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Appends a value to the name of a resource. What could be part of a template is encoded, so that no value can forge the
/// name of another resource.
pub fn push_value(name: &mut String, value: &dyn Display) {
    push_bytes(name, value.to_string().as_bytes());
}

pub(crate) fn push_bytes(name: &mut String, value: &[u8]) {
    name.extend(percent_encode(value, RESERVED));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_can_not_forge_another_resource() {
        let name = |value: &str| {
            let mut name = String::from("stock:");
            push_value(&mut name, &value);
            name
        };
        assert_eq!(name("a-Z.0_9~"), "stock:a-Z.0_9~");
        assert_eq!(name("a:b"), "stock:a%3Ab");
        assert_eq!(name("a%3Ab"), "stock:a%253Ab", "not the same as the one above");
        assert_eq!(name("{ü}\n"), "stock:%7B%C3%BC%7D%0A");
        assert_eq!(name(""), "stock:");
    }
}
