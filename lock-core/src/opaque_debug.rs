/// `Debug` for a type of which only these are shown: the rest would be long, or is secret. Not public API.
#[doc(hidden)]
#[macro_export]
macro_rules! opaque_debug {
    ($type:ident $(, |$this:ident| $($name:literal: $value:expr),+)?) => {
        impl ::std::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $(let $this = self;)?
                f.debug_struct(stringify!($type))$($(.field($name, &$value))+)?.finish_non_exhaustive()
            }
        }
    };
}
