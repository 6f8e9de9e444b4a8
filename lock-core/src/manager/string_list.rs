/// Any [`IntoIterator`] of strings. A trait of its own, because the advice of rustc for a `&str` that is none would be to call `.chars()`.
#[diagnostic::on_unimplemented(
    message = "a list of strings is needed here, and `{Self}` is none: write `[…]` around a single one",
    label = "not a list of strings",
    note = "an array, a `Vec`, or any other `IntoIterator` of `&str` or `String`, as in `[\"redis://10.0.0.1\"]`"
)]
pub trait StringList: IntoIterator<Item: AsRef<str>> {}

#[diagnostic::do_not_recommend]
impl<T: IntoIterator<Item: AsRef<str>>> StringList for T {}
