use std::fmt::Display;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// All bytes except `A-Za-z0-9-._~`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Appends a value to a resource, percent-encoded. The separators of a template (`:`, `/`, …) cannot occur in an
/// encoded value, so a value such as `a:b` cannot forge another resource.
pub fn push_encoded(resource: &mut String, value: &dyn Display) {
    push_encoded_bytes(resource, value.to_string().as_bytes());
}

/// [`push_encoded`] for a value that need not be UTF-8, such as a header.
pub(crate) fn push_encoded_bytes(resource: &mut String, value: &[u8]) {
    resource.extend(percent_encode(value, ENCODED));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_forge_another_resource() {
        let resource = |value: &str| {
            let mut resource = String::from("stock:");
            push_encoded(&mut resource, &value);
            resource
        };
        assert_eq!(resource("a-Z.0_9~"), "stock:a-Z.0_9~");
        assert_eq!(resource("a:b"), "stock:a%3Ab");
        assert_eq!(resource("a%3Ab"), "stock:a%253Ab", "different from the one above");
        assert_eq!(resource("{ü}\n"), "stock:%7B%C3%BC%7D%0A");
        assert_eq!(resource(""), "stock:");
    }
}
