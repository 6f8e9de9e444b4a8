use quote::quote;

use super::*;

fn messages(tokens: TokenStream) -> Vec<String> {
    let mut diagnostics = Diagnostics::default();
    Args::parse(tokens, &mut diagnostics);
    diagnostics.into_result().err().into_iter().flatten().map(|error| error.to_string()).collect()
}

#[test]
fn parses_every_argument() {
    let mut diagnostics = Diagnostics::default();
    let args = Args::parse(
        quote! {
            resource = "stock:{sku}", permits = 3, ttl = "10s", wait = "2s", max_hold = "1m", renew = false, hold = "body",
            adopt = true, on_lost = "continue", on_disconnect = "cancel", busy_status = 423, retry_after = "5s", body_timeout = "10s", on_error = errors::busy::<A, B>,
            manager = self.locks(1, 2), state, crate = ::shop::lock_axum,
        },
        &mut diagnostics,
    );
    diagnostics.into_result().unwrap();
    assert!(matches!(args.resource, Some(ResourceSource::Template(_))));
    assert_eq!(args.permits, Some(3));
    assert_eq!(args.ttl, Some(Duration::from_secs(10)));
    assert_eq!(args.wait, Some(Duration::from_secs(2)));
    assert_eq!(args.max_hold, Some(Duration::from_secs(60)));
    assert_eq!(args.renew, Some(false));
    assert!(!args.holds_session());
    assert_eq!(args.hold.unwrap(), "BodyEnd");
    assert_eq!(args.adopt, Some(true));
    assert_eq!(args.on_lost.unwrap(), "Continue");
    assert_eq!(args.on_disconnect.unwrap(), "Cancel");
    assert_eq!(args.busy_status, Some(423));
    assert_eq!(args.body_timeout, Some(Duration::from_secs(10)));
    assert_eq!(args.retry_after, Some(Duration::from_secs(5)));
    assert!(args.on_error.is_some() && args.manager.is_some() && args.krate.is_some());
    assert_eq!(args.names.len(), KNOWN.len() - 2, "all but `key` and `mode`");
}

#[test]
fn a_mode_is_one_of_two_and_not_that_of_a_permit() {
    let mut diagnostics = Diagnostics::default();
    let args = Args::parse(quote!(resource = "catalog", mode = "read"), &mut diagnostics);
    diagnostics.into_result().unwrap();
    assert_eq!(args.mode.unwrap(), "Read");
    let [error] = &messages(quote!(resource = "export", mode = "write", permits = 3))[..] else { panic!() };
    assert!(error.starts_with("`mode` cannot be combined with `permits`"), "{error}");
}

#[test]
fn omitted_arguments_are_left_to_the_manager() {
    let mut diagnostics = Diagnostics::default();
    let args = Args::parse(quote!(key = format!("{a},{b}", a = 1)), &mut diagnostics);
    diagnostics.into_result().unwrap();
    assert!(matches!(args.resource, Some(ResourceSource::Expr(_))));
    assert!(args.ttl.is_none() && args.renew.is_none() && args.on_lost.is_none() && args.manager.is_none());
}

#[test]
fn an_unknown_name_is_reported_with_the_known_ones() {
    let [message] = &messages(quote!(resource = "a", tll = "10s"))[..] else { panic!("one message") };
    assert!(message.starts_with("unknown argument `tll`; did you mean `ttl`? (expected one of `resource`, `key`, "));
    let [message] = &messages(quote!(resource = "a", color("red")))[..] else { panic!("one message") };
    assert!(message.starts_with("unknown argument `color` (expected one of "), "{message}");
}

#[test]
fn a_duplicate_name_is_reported() {
    assert_eq!(messages(quote!(resource = "a", ttl = "1s", ttl = "1s")), ["duplicate argument `ttl`"]);
    assert_eq!(messages(quote!(resource = "a", resource = "{}")), ["duplicate argument `resource`"]);
}

#[test]
fn the_resource_is_defined_once() {
    let missing = "missing `resource` or `key`: add `resource = \"stock:{sku}\"` or `key = …`";
    assert_eq!(messages(quote!()), [missing]);
    assert_eq!(messages(quote!(ttl = "1s")), [missing]);
    let both = "`resource` and `key` both define the resource: remove one of them";
    assert_eq!(messages(quote!(resource = "a", key = b)), [both]);
    assert_eq!(messages(quote!(key = b, resource = "a")), [both]);
}

#[test]
fn several_resources_are_a_set() {
    let mut diagnostics = Diagnostics::default();
    let args = Args::parse(quote!(resource = ["stock:{sku}", "user:{id}"]), &mut diagnostics);
    diagnostics.into_result().unwrap();
    let source = args.resource.unwrap();
    assert!(source.is_set());
    assert_eq!((source.templates().len(), source.placeholders().count()), (2, 2));
    let none = "`resource` must list between 1 and 32 resources, got 0";
    assert_eq!(messages(quote!(resource = [])), [none]);
    let many = vec!["a"; 33];
    assert_eq!(messages(quote!(resource = [#(#many),*])).len(), 1);
    assert_eq!(messages(quote!(resource = ["{", b, "c"])).len(), 2, "one for each mistake");
}

#[test]
fn a_missing_value_is_reported() {
    let message = "missing value of `ttl`: write `ttl = \"10s\"`";
    for tokens in [quote!(ttl), quote!(ttl,), quote!(ttl =), quote!(ttl = ,), quote!(ttl("10s")), quote!(ttl == 1)] {
        assert_eq!(messages(quote!(resource = "a", #tokens)), [message], "{tokens}");
    }
    let names = "expected a named argument: write `resource = \"…\"`";
    assert_eq!(messages(quote!("stock:{sku}", resource = "a")), [names]);
}

#[test]
fn one_error_does_not_hide_the_next() {
    assert_eq!(messages(quote!(tll = "10s", 5, ttl = "1x", renew = 1, wait = , resource = "{", busy_status)).len(), 7);
    assert_eq!(
        messages(quote!(resource = "a" ttl = "1s", renew = 1)),
        ["expected `,`", "`renew` must be `true` or `false`"]
    );
}
