/// A name as people can read it: characters that cannot be seen, or that change how others are shown, are escaped, such as those for the
/// direction of text. So no name looks like another one. Accents that follow their letter are escaped, too: `é` may be one character or
/// two, and those are two names.
pub(super) fn shown(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            // As it is, or `\u{202e}`. Names have no braces, so that nothing else looks like this.
            _ if character.is_ascii() => shown.push(character),
            // Some letters and a symbol, as Unicode has it, are blank.
            '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' => shown.extend(character.escape_unicode()),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_looks_like_another_one() {
        assert_eq!(shown("stock:42/\"a b\""), "stock:42/\"a b\"");
        assert_eq!(shown("größe:寿司"), "größe:寿司");
        assert_eq!(shown("stock:\u{202e}24"), "stock:\\u{202e}24", "the other direction");
        assert_eq!(shown("stock:4\u{200b}2"), "stock:4\\u{200b}2", "a space without width");
        for format in
            ['\u{ad}', '\u{61c}', '\u{200d}', '\u{2066}', '\u{2069}', '\u{fe0f}', '\u{e0041}', '\u{3164}', '\u{2800}']
        {
            assert_eq!(shown(&format!("stock{format}")), format!("stock{}", format.escape_unicode()));
        }
        assert_eq!(shown("\u{feff}stock"), "\\u{feff}stock");
        assert_eq!(shown("caf\u{e9}"), "café");
        assert_eq!(shown("cafe\u{301}"), "cafe\\u{301}", "an accent of its own");
        assert_eq!(shown("a\u{a0}b\u{2028}"), "a\\u{a0}b\\u{2028}", "spaces and lines that are not ASCII");
    }
}
