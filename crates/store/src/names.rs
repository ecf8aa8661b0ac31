//! Valid names of signals, and patterns.
//!
//! A name is a path in the store: components joined by `/`, each a folder. Refused are names that leave the store, are
//! hidden, or conflict with its own folders.

use crate::error::StoreError;

/// Folders in a signal's folder: no components.
pub const RESERVED: [&str; 7] = ["data", "crc", "gaps", "runs", "events", "timebase", "views"];

/// Longest component on every file system.
const MAX_COMPONENT_BYTES: usize = 255;

/// Checks a signal's name.
///
/// # Errors
/// [`StoreError::InvalidName`] with component and rule.
pub fn check_name(name: &str) -> Result<(), StoreError> {
    for component in name.split('/') {
        if let Some(rule) = broken_rule(component) {
            return Err(StoreError::InvalidName {
                name: name.into(),
                component: component.into(),
                rule,
            });
        }
    }
    Ok(())
}

fn broken_rule(component: &str) -> Option<&'static str> {
    if component.is_empty() {
        Some("is empty (a name neither starts nor ends with '/', nor has two in a row)")
    } else if component == ".." || component == "." {
        Some("would point to another folder or to its own")
    } else if component.starts_with('.') {
        Some("starts with '.', which hides files")
    } else if component.starts_with("__") {
        Some("starts with '__', which Zarr reserves")
    } else if component.contains('\\') {
        Some("contains a backslash")
    } else if component.chars().any(char::is_control) {
        Some("contains a control character")
    } else if component.len() > MAX_COMPONENT_BYTES {
        Some("is longer than 255 bytes")
    } else if component == "zarr.json" {
        Some("is the name of Zarr's metadata file")
    } else if RESERVED.contains(&component) {
        Some("is reserved for a signal's own arrays")
    } else {
        None
    }
}

/// The name that `wanted` may be a misspelling of: the one with fewest edits, at most a third of its length.
#[must_use]
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .take(10_000)
        .map(|name| (edits(wanted, name), name))
        .filter(|(distance, _)| *distance * 3 <= wanted.chars().count().max(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// A glob over name components: `*`, `?`, `[a-z]` and `[!a-z]` within one, `**` for any number of components.
///
/// ```
/// let pattern = isochrony_store::Pattern::new("stn_*/pressure")?;
/// assert!(pattern.matches("stn_10/pressure"));
/// assert!(!pattern.matches("stn_10/deep/pressure"));
/// # Ok::<(), isochrony_store::StoreError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    components: Vec<Component>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Component {
    /// Any number of components, even none.
    Any,
    One(Vec<Token>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`
    Single,
    /// `*`
    Many,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`StoreError::InvalidPattern`].
    pub fn new(text: &str) -> Result<Self, StoreError> {
        let refuse = |reason| StoreError::InvalidPattern {
            pattern: text.into(),
            reason,
        };
        if text.is_empty() {
            return Err(refuse("it is empty"));
        }
        let components = text.split('/').map(|part| match part {
            "" => Err(refuse("a component is empty")),
            "**" => Ok(Component::Any),
            part if part.contains("**") => Err(refuse("** must be a whole component")),
            part => tokens(part)
                .map(Component::One)
                .ok_or_else(|| refuse("a [ has no matching ], or the class is empty")),
        });
        Ok(Self {
            components: components.collect::<Result<_, _>>()?,
            text: text.to_owned(),
        })
    }

    /// The text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches all of `name`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let parts: Vec<Vec<char>> = name.split('/').map(|p| p.chars().collect()).collect();
        wildcard(
            &self.components,
            &parts,
            |c| matches!(c, Component::Any),
            |c, part| match c {
                Component::Any => true,
                Component::One(tokens) => wildcard(tokens, part, |t| *t == Token::Many, token_fits),
            },
        )
    }
}

fn token_fits(token: &Token, c: &char) -> bool {
    match token {
        Token::Char(have) => have == c,
        Token::Single | Token::Many => true,
        Token::Class { negated, ranges } => {
            ranges.iter().any(|(from, to)| (from..=to).contains(&c)) != *negated
        }
    }
}

/// Some elements of `pattern` stand for any number of items. Only the latest of them needs a retry.
fn wildcard<P, T>(
    pattern: &[P],
    items: &[T],
    is_many: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut p, mut i) = (0, 0);
    let mut retry = None;
    loop {
        match pattern.get(p) {
            Some(element) if is_many(element) => {
                retry = Some((p, i));
                p += 1;
                continue;
            }
            Some(element) if items.get(i).is_some_and(|item| fits(element, item)) => {
                p += 1;
                i += 1;
                continue;
            }
            None if i == items.len() => return true,
            _ => {}
        }
        match retry {
            Some((at, from)) if from < items.len() => {
                retry = Some((at, from + 1));
                p = at + 1;
                i = from + 1;
            }
            _ => return false,
        }
    }
}

fn tokens(part: &str) -> Option<Vec<Token>> {
    let mut out = Vec::new();
    let mut chars = part.chars().peekable();
    while let Some(c) = chars.next() {
        out.push(match c {
            '*' => Token::Many,
            '?' => Token::Single,
            '[' => {
                let negated = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
                let mut ranges = Vec::new();
                loop {
                    match chars.next()? {
                        ']' if !ranges.is_empty() => break,
                        from => {
                            let to = match chars.next_if_eq(&'-') {
                                Some(_) if chars.peek() == Some(&']') => {
                                    ranges.push(('-', '-'));
                                    from
                                }
                                Some(_) => chars.next()?,
                                None => from,
                            };
                            ranges.push((from, to));
                        }
                    }
                }
                Token::Class { negated, ranges }
            }
            c => Token::Char(c),
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_names_that_leave_hide_or_collide() {
        for (name, component, rule) in [
            ("", "", "empty"),
            ("/etc", "", "empty"),
            ("a//b", "", "empty"),
            ("a/", "", "empty"),
            ("../up", "..", "another folder"),
            ("a/./b", ".", "another folder"),
            ("a/.hidden", ".hidden", "hides"),
            ("__group", "__group", "Zarr"),
            ("a\\b", "a\\b", "backslash"),
            ("a/b\n", "b\n", "control"),
            ("stn/data", "data", "reserved"),
            ("views/x", "views", "reserved"),
            ("a/zarr.json", "zarr.json", "metadata"),
        ] {
            match check_name(name) {
                Err(StoreError::InvalidName {
                    component: got,
                    rule: why,
                    ..
                }) => {
                    assert_eq!(got, component, "{name:?}");
                    assert!(why.contains(rule), "{name:?}: {why}");
                }
                other => panic!("{name:?}: {other:?}"),
            }
        }
        assert!(check_name(&"x".repeat(256)).is_err());
        for name in ["a", "net/stn/00/HHZ", "Ω/druck 1", "data2/gapsy", "a-b_c.d"] {
            check_name(name).unwrap();
        }
    }

    #[test]
    fn patterns_match_as_shells_do() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "a/b", false),
            ("**", "a/b/c", true),
            ("stn_*/pressure", "stn_10/pressure", true),
            ("stn_?/*", "stn_10/pressure", false),
            ("**/pressure", "pressure", true),
            ("**/pressure", "a/b/pressure", true),
            ("a/**/z", "a/z", true),
            ("a/**/z", "a/b/c/z", true),
            ("a/**/z", "a/b/c/y", false),
            ("HH[ZN]", "HHZ", true),
            ("HH[!ZN]", "HHZ", false),
            ("s[0-9]*[a-c]x", "s1abcbx", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("[]x]", "]", true),
            ("[a-]", "-", true),
        ] {
            assert_eq!(
                Pattern::new(pattern).unwrap().matches(name),
                expected,
                "{pattern} on {name}"
            );
        }
        for bad in ["", "a//b", "a**", "[abc", "[]"] {
            assert_eq!(
                Pattern::new(bad).unwrap_err().code(),
                "invalid_pattern",
                "{bad}"
            );
        }
    }

    #[test]
    fn matches_many_stars_in_polynomial_time() {
        let pattern = Pattern::new(&"*a".repeat(40)).unwrap();
        assert!(!pattern.matches(&("a".repeat(2_000) + "b")));
    }

    #[test]
    fn hints_name_the_nearest_signal() {
        let names = ["stn_10/pressure", "stn_11/flow"];
        assert_eq!(nearest("stn_10/presure", names.into_iter()), Some(names[0]));
        assert_eq!(nearest("zzz", names.into_iter()), None);
    }
}
