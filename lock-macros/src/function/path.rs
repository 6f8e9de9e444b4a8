//! Compares paths by their last segment: an attribute macro sees what was written, not what it resolves to.

use syn::{Path, PathSegment, Type};

/// Whether the last segment of a path has this name.
pub(crate) fn ends_with(path: &Path, name: &str) -> bool {
    path.segments.last().is_some_and(|segment| segment.ident == name)
}

/// The last segment of a type's path, also inside parentheses and the invisible groups of `macro_rules!`.
pub(crate) fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        Type::Group(group) => last_segment(&group.elem),
        Type::Paren(paren) => last_segment(&paren.elem),
        _ => None,
    }
}
