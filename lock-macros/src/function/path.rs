//! Compares paths by their last segment: an attribute macro sees what was written, not what it resolves to.

use std::iter::once;

use syn::{Path, PathSegment, Type};

/// Whether the last segment of a path has this name.
pub(crate) fn ends_with(path: &Path, name: &str) -> bool {
    path.segments.last().is_some_and(|segment| segment.ident == name)
}

/// The types in a tuple, and in the tuples in it. None if the type is not written as a tuple.
pub(crate) fn tuple_members(ty: &Type) -> Vec<&Type> {
    match ty {
        Type::Tuple(tuple) => tuple.elems.iter().flat_map(|elem| once(elem).chain(tuple_members(elem))).collect(),
        Type::Group(group) => tuple_members(&group.elem),
        Type::Paren(paren) => tuple_members(&paren.elem),
        _ => Vec::new(),
    }
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
