//! Parses the value of one argument: a literal, a choice, a path.

use std::ops::RangeInclusive;

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{Error, Expr, ExprLit, Lit, LitStr};

use crate::diagnostics::{did_you_mean, list};

/// The literal in an expression, also when a `macro_rules!` variable wraps it in an invisible group.
pub(crate) fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        Expr::Group(group) => literal(&group.expr),
        _ => None,
    }
}

/// A string literal; anything else is an error with the given message.
pub(crate) fn string<'a>(value: &'a Expr, message: &str) -> syn::Result<&'a LitStr> {
    match literal(value) {
        Some(Lit::Str(literal)) => Ok(literal),
        _ => Err(Error::new_spanned(value, message)),
    }
}

pub(crate) fn boolean(name: &str, value: &Expr) -> syn::Result<bool> {
    match literal(value) {
        Some(Lit::Bool(literal)) => Ok(literal.value),
        _ => Err(Error::new_spanned(value, format!("`{name}` must be `true` or `false`"))),
    }
}

/// A string, and the variant of an enum that it selects.
pub(crate) type Choice = (&'static str, &'static str);

/// One of several strings; yields the variant that it selects.
pub(crate) fn choice(name: &str, value: &Expr, choices: &[Choice]) -> syn::Result<Ident> {
    let literals = || choices.iter().map(|(literal, _)| *literal);
    let expected = format!(
        "`{name}` must be {}",
        literals().map(|literal| format!("{literal:?}")).collect::<Vec<_>>().join(" or ")
    );
    let literal = string(value, &expected)?;
    let written = literal.value();
    match choices.iter().find(|(literal, _)| *literal == written) {
        Some((_, variant)) => Ok(Ident::new(variant, proc_macro2::Span::mixed_site())),
        None => Err(Error::new(literal.span(), format!("{expected}{}", did_you_mean(&written, literals())))),
    }
}

/// One of several numbers.
pub(crate) fn number(name: &str, value: &Expr, choices: &[u16]) -> syn::Result<u16> {
    if let Some(Lit::Int(literal)) = literal(value)
        && let Ok(number) = literal.base10_parse()
        && choices.contains(&number)
    {
        return Ok(number);
    }
    let choices: Vec<_> = choices.iter().map(ToString::to_string).collect();
    let message = format!("`{name}` must be one of {}", list(choices.iter().map(String::as_str)));
    Err(Error::new_spanned(value, message))
}

/// A number in a range.
pub(crate) fn number_in(name: &str, value: &Expr, range: RangeInclusive<u32>) -> syn::Result<u32> {
    let (least, most) = (range.start(), range.end());
    let Some(Lit::Int(literal)) = literal(value) else {
        let message = format!("`{name}` must be a number between {least} and {most}");
        return Err(Error::new_spanned(value, message));
    };
    let number = literal.base10_parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let message = format!("`{name}` must be between {least} and {most}, got {}", literal.base10_digits());
        Error::new(literal.span(), message)
    })
}

/// A path such as `crate::errors::busy`.
pub(crate) fn path(name: &str, value: &Expr, example: &str) -> syn::Result<TokenStream> {
    match value {
        Expr::Path(path) => Ok(path.to_token_stream()),
        Expr::Group(group) => self::path(name, &group.expr, example),
        _ => Err(Error::new_spanned(value, format!("`{name}` must be a path such as `{example}`"))),
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn a_choice_is_checked() {
        let choices = [("cancel", "Cancel"), ("continue", "Continue")];
        assert_eq!(choice("on_lost", &parse_quote!("cancel"), &choices).unwrap(), "Cancel");
        let close = choice("on_lost", &parse_quote!("cancle"), &choices).unwrap_err();
        assert_eq!(close.to_string(), "`on_lost` must be \"cancel\" or \"continue\"; did you mean `cancel`?");
        let bare = choice("on_lost", &parse_quote!(cancel), &choices).unwrap_err();
        assert_eq!(bare.to_string(), "`on_lost` must be \"cancel\" or \"continue\"");
    }

    #[test]
    fn a_number_is_checked() {
        assert_eq!(number("busy_status", &parse_quote!(423), &[409, 423]).unwrap(), 423);
        for wrong in [parse_quote!(200), parse_quote!("409"), parse_quote!(70000), parse_quote!(-1)] {
            let error = number("busy_status", &wrong, &[409, 423]).unwrap_err();
            assert_eq!(error.to_string(), "`busy_status` must be one of `409`, `423`");
        }
    }

    #[test]
    fn a_number_in_a_range_is_checked() {
        assert_eq!(number_in("permits", &parse_quote!(100), 1..=100).unwrap(), 100);
        for (wrong, got) in
            [(parse_quote!(0), "0"), (parse_quote!(101), "101"), (parse_quote!(99999999999), "99999999999")]
        {
            let error = number_in("permits", &wrong, 1..=100).unwrap_err();
            assert_eq!(error.to_string(), format!("`permits` must be between 1 and 100, got {got}"));
        }
        for wrong in [parse_quote!("3"), parse_quote!(PERMITS), parse_quote!(-1)] {
            let error = number_in("permits", &wrong, 1..=100).unwrap_err();
            assert_eq!(error.to_string(), "`permits` must be a number between 1 and 100");
        }
    }

    #[test]
    fn a_boolean_is_not_a_string() {
        assert!(boolean("renew", &parse_quote!(true)).unwrap());
        assert!(boolean("renew", &parse_quote!("true")).is_err());
    }

    #[test]
    fn a_path_is_not_a_closure() {
        assert!(path("on_error", &parse_quote!(errors::busy::<u8>), "errors::busy").is_ok());
        let error = path("on_error", &parse_quote!(|e| e), "errors::busy").unwrap_err();
        assert_eq!(error.to_string(), "`on_error` must be a path such as `errors::busy`");
    }
}
