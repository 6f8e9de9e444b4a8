//! Collects errors, so that one build reports all of them, and words what they have in common.

use proc_macro2::TokenStream;
use syn::Error;

/// The errors found so far.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics(Option<Error>);

impl Diagnostics {
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Unwraps a result; an error is collected and leaves `None`.
    pub(crate) fn handle<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The errors combined into one, if there are any.
    pub(crate) fn into_result(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }

    /// One `compile_error!` for each error.
    pub(crate) fn to_compile_error(&self) -> TokenStream {
        self.0.as_ref().map(Error::to_compile_error).unwrap_or_default()
    }
}

/// `; did you mean …?` if one of the known names is close to the written one, otherwise nothing.
pub(crate) fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let nearest = known.into_iter().map(|name| (distance(written, name), name)).min();
    match nearest {
        // A third of the letters may differ: `tll` suggests `ttl`, but `foo` does not suggest `key`. Nor does `N` suggest `m`: a letter
        // has to be the same.
        Some((distance, name))
            if distance * 3 <= name.chars().count().max(3)
                && distance < written.chars().count().max(name.chars().count()) =>
        {
            format!("; did you mean `{name}`?")
        }
        _ => String::new(),
    }
}

/// Quotes the names and joins them with commas.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The number of letters to insert, delete, replace or swap with their neighbor to turn one word into the other
/// (optimal string alignment distance).
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replace = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::*;

    #[test]
    fn counts_edits() {
        assert_eq!(distance("ttl", "ttl"), 0);
        assert_eq!(distance("tll", "ttl"), 1);
        assert_eq!(distance("wiat", "wait"), 1);
        assert_eq!(distance("", "wait"), 4);
        assert_eq!(distance("größe", "grösse"), 2);
    }

    #[test]
    fn suggests_what_is_close_and_nothing_else() {
        assert_eq!(did_you_mean("tll", ["wait", "ttl"]), "; did you mean `ttl`?");
        assert_eq!(did_you_mean("max_hodl", ["max_hold", "wait"]), "; did you mean `max_hold`?");
        assert_eq!(did_you_mean("color", ["key", "ttl"]), "");
        assert_eq!(did_you_mean("N", ["m", "key"]), "");
        assert_eq!(did_you_mean("ttl", []), "");
    }

    #[test]
    fn keeps_every_error() {
        let mut diagnostics = Diagnostics::default();
        assert!(diagnostics.is_empty());
        diagnostics.push(Error::new(Span::call_site(), "one"));
        assert!(diagnostics.handle(Err::<(), _>(Error::new(Span::call_site(), "two"))).is_none());
        let messages: Vec<_> = diagnostics.into_result().unwrap_err().into_iter().map(|e| e.to_string()).collect();
        assert_eq!(messages, ["one", "two"]);
    }
}
