//! Placeholders against the parameters that they name.

use syn::ext::IdentExt as _;
use syn::{Error, GenericParam, Member, PatType};

use crate::args::{Foreign, Placeholder, Template, of_the_layer};
use crate::diagnostics::{Diagnostics, did_you_mean, list};
use crate::function::{Function, bindings, injected};

/// What to say of a placeholder that names something else than a parameter, but nothing that is misspelt.
fn other_than_a_binding(function: &Function, placeholder: &Placeholder, is_handler: bool) -> Option<String> {
    let name = &placeholder.binding;
    if let ("header" | "query", [Member::Named(field)]) = (&**name, &placeholder.fields[..])
        && is_handler
    {
        return Some(of_the_layer(&format!("{name}.{field}"), name, &field.unraw().to_string()));
    }
    let is_generic = function.sig.generics.params.iter().any(|param| match param {
        GenericParam::Const(param) => param.ident == *name,
        GenericParam::Type(_) | GenericParam::Lifetime(_) => false,
    });
    let is_constant = name.chars().any(char::is_alphabetic) && !name.chars().any(char::is_lowercase);
    (is_generic || is_constant).then(|| {
        format!("`{{{name}}}` names no parameter: for a constant, write `key = format!(\"…{{{name}}}\")`, which encodes nothing")
    })
}

/// A parameter's name in another syntax than that of placeholders would be text, and all of its values one resource.
pub(super) fn check_foreign_placeholders(function: &Function, template: &Template, diagnostics: &mut Diagnostics) {
    let names: Vec<_> = function.params().flat_map(|param| bindings(&param.pat)).collect();
    for Foreign { written, name } in template.foreign_placeholders() {
        if names.iter().any(|binding| binding.unraw() == name) {
            let message = format!(
                "write `{{{name}}}` instead of `{written}`: placeholders are names in braces, without `$`, `:` or `*`"
            );
            diagnostics.push(Error::new(template.span, message));
        }
    }
}

pub(super) fn check_placeholders(
    function: &Function,
    template: &Template,
    is_handler: bool,
    diagnostics: &mut Diagnostics,
) {
    let names = |param: &PatType| bindings(&param.pat);
    // In a handler, the lock provides these parameters: they have no value before it is acquired.
    let (from_lock, usable): (Vec<_>, Vec<_>) =
        function.params().partition(|param| is_handler && injected(&param.ty).is_some());
    let binds = |params: &[&PatType], placeholder: &Placeholder| {
        params.iter().flat_map(|param| names(param)).any(|name| placeholder.refers_to(&name))
    };
    for placeholder in template.placeholders() {
        let name = &placeholder.binding;
        let is_self = name == "self" && function.receiver().is_some();
        if is_self || binds(&usable, placeholder) {
            continue;
        }
        if binds(&from_lock, placeholder) {
            let message =
                format!("`{{{name}}}` cannot be part of `resource`: it has no value before the lock is acquired");
            diagnostics.push(Error::new(template.span, message));
            continue;
        }
        let mut known: Vec<_> =
            usable.iter().flat_map(|param| names(param)).map(|name| name.unraw().to_string()).collect();
        if function.receiver().is_some() {
            known.insert(0, "self".to_owned());
        }
        let known = || known.iter().map(String::as_str);
        let message = if let Some(message) = other_than_a_binding(function, placeholder, is_handler) {
            message
        } else if known().next().is_none() {
            format!("unknown placeholder `{{{name}}}`: the parameters bind no names")
        } else {
            let hint = did_you_mean(name, known());
            format!("unknown placeholder `{{{name}}}`{hint} (the parameters bind {})", list(known()))
        };
        diagnostics.push(Error::new(template.span, message));
    }
}
