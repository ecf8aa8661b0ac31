//! Matches a path against a layout, by backtracking within a budget of steps.

use super::{Kind, Layout, Match, Part, Token};
use crate::IngestError;
use crate::stamp::{Calendar, CivilStamp, IsoStamp, parse_epoch, parse_iso};

/// Usual paths take a step per token and character.
const MAX_STEPS: usize = 20_000;

pub(super) fn read(layout: &Layout, path: &str) -> Result<Match, IngestError> {
    let mut search = Search::new(layout, path, true);
    if search.descend(0, 0) {
        let stamp = search.stamp()?;
        let names = (0..layout.names.len()).filter_map(|index| search.value(Kind::Name(index)));
        return Ok(Match {
            signal: names.collect::<Vec<_>>().join("/"),
            stamp,
        });
    }
    Err(search.reason())
}

struct Search<'a> {
    layout: &'a Layout,
    path: &'a str,
    values: Vec<Option<&'a str>>,
    steps: usize,
    /// Furthest byte reached, and the token that failed there.
    furthest: (usize, usize),
    /// Whether repeated fields must agree; `false` only to find the reason of a mismatch.
    agree: bool,
}

impl<'a> Search<'a> {
    fn new(layout: &'a Layout, path: &'a str, agree: bool) -> Self {
        Self {
            layout,
            path,
            values: vec![None; layout.tokens.len()],
            steps: 0,
            furthest: (0, 0),
            agree,
        }
    }

    fn descend(&mut self, token: usize, at: usize) -> bool {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return false;
        }
        let rest = &self.path[at..];
        let Some(current) = self.layout.tokens.get(token) else {
            return rest.is_empty() || self.fail(token, at);
        };
        let (kind, width) = match current {
            Token::Literal(text) => {
                if rest.starts_with(text.as_str()) {
                    return self.descend(token + 1, at + text.len());
                }
                let common = rest
                    .bytes()
                    .zip(text.bytes())
                    .take_while(|(a, b)| a == b)
                    .count();
                return self.fail(token, at + common);
            }
            Token::Any => (None, None),
            Token::Field { kind, width } => (Some(*kind), *width),
        };
        let (shortest, longest) = span(kind, width, rest);
        if longest < shortest {
            return self.fail(token, at);
        }
        for length in (shortest..=longest).rev() {
            let Some(text) = rest.get(..length) else {
                continue; // inside a character
            };
            self.steps += 1;
            if !self.accepts(token, kind, width, text) {
                continue;
            }
            self.values[token] = Some(text);
            if self.descend(token + 1, at + length) {
                return true;
            }
            self.values[token] = None;
        }
        self.fail(token, at)
    }

    fn accepts(&self, token: usize, kind: Option<Kind>, width: Option<usize>, text: &str) -> bool {
        let Some(kind) = kind else {
            return true;
        };
        let legal = match kind {
            Kind::Name(_) => {
                width.is_none_or(|width| text.chars().count() == width)
                    && !matches!(text, "." | "..")
            }
            Kind::Epoch(_) => text
                .split_once('.')
                .is_none_or(|(_, fraction)| !fraction.is_empty()),
            Kind::Iso => self.iso(token, text).is_some(),
            Kind::Part(_) => true,
        };
        legal && (!self.agree || self.value(kind).is_none_or(|first| same(kind, first, text)))
    }

    /// `-0500` is a zone only where the template determines what follows.
    fn iso(&self, token: usize, text: &str) -> Option<IsoStamp> {
        let following = self.layout.tokens.get(token + 1);
        parse_iso(text, matches!(following, None | Some(Token::Literal(_))))
    }

    fn fail(&mut self, token: usize, at: usize) -> bool {
        if at >= self.furthest.0 {
            self.furthest = (at, token);
        }
        false
    }

    fn value(&self, wanted: Kind) -> Option<&'a str> {
        self.layout
            .tokens
            .iter()
            .zip(&self.values)
            .find_map(|(token, value)| match token {
                Token::Field { kind, .. } if *kind == wanted => *value,
                _ => None,
            })
    }

    fn part(&self, part: Part) -> Option<&'a str> {
        self.value(Kind::Part(part))
    }

    fn stamp(&self) -> Result<Option<CivilStamp>, IngestError> {
        let impossible = |stamp: &str, reason| IngestError::ImpossibleStamp {
            path: self.path.into(),
            stamp: stamp.into(),
            reason,
        };
        let number = |part| self.part(part).and_then(|text| text.parse::<i64>().ok());
        let calendar = Calendar {
            year: number(Part::Year).unwrap_or_default(),
            month: number(Part::Month),
            day: number(Part::Day).unwrap_or_default(),
            hour: number(Part::Hour),
            minute: number(Part::Minute),
            second: number(Part::Second),
            fraction: number(Part::Fraction).zip(
                self.part(Part::Fraction)
                    .and_then(|text| u32::try_from(text.len()).ok()),
            ),
        };
        for (at, (token, value)) in self.layout.tokens.iter().zip(&self.values).enumerate() {
            let (Token::Field { kind, .. }, Some(text)) = (token, value) else {
                continue;
            };
            let stamp = match kind {
                Kind::Epoch(unit) => parse_epoch(text, *unit),
                Kind::Iso => match self.iso(at, text) {
                    Some(iso) => iso.refined(&calendar).stamp(),
                    None => Err("it is not an ISO 8601 time"),
                },
                _ => continue,
            };
            return stamp.map(Some).map_err(|reason| impossible(text, reason));
        }
        if !self.layout.timed {
            return Ok(None);
        }
        calendar.stamp().map(Some).map_err(|reason| {
            let parts = Part::ALL.iter().filter_map(|(_, part)| self.part(*part));
            impossible(&parts.collect::<Vec<_>>().join("-"), reason)
        })
    }

    fn reason(&self) -> IngestError {
        let mut free = Search::new(self.layout, self.path, false);
        if free.descend(0, 0) {
            for (token, value) in self.layout.tokens.iter().zip(&free.values) {
                let (Token::Field { kind, .. }, Some(second)) = (token, value) else {
                    continue;
                };
                if let Some(first) = free
                    .value(*kind)
                    .filter(|first| !same(*kind, first, second))
                {
                    return IngestError::FieldDisagrees {
                        path: self.path.into(),
                        field: self.layout.field_text(*kind, None),
                        first: first.into(),
                        second: (*second).into(),
                    };
                }
            }
        }
        let (furthest, token) = self.furthest;
        let expected = match self.layout.tokens.get(token) {
            _ if self.steps > MAX_STEPS => "a path that fits in fewer ways".into(),
            None => "the end of the name".into(),
            Some(Token::Literal(text)) => format!("{text:?}"),
            Some(Token::Any) => "any text".into(),
            Some(Token::Field { kind, width }) => self.layout.field_text(*kind, *width),
        };
        IngestError::Misnamed {
            path: self.path.into(),
            at: 1 + self
                .path
                .char_indices()
                .take_while(|(at, _)| *at < furthest)
                .count(),
            expected,
        }
    }
}

/// Numbers may have leading zeros.
fn same(kind: Kind, first: &str, second: &str) -> bool {
    match kind {
        Kind::Part(Part::Fraction) | Kind::Name(_) | Kind::Epoch(_) | Kind::Iso => first == second,
        Kind::Part(_) => first.parse::<u32>() == second.parse::<u32>(),
    }
}

/// Minimum and maximum bytes of a field at the start of `rest`.
fn span(kind: Option<Kind>, width: Option<usize>, rest: &str) -> (usize, usize) {
    let component = rest.find('/').unwrap_or(rest.len());
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let fixed = |low: usize, high: usize, digits: usize| match width {
        Some(width) => (width, width.min(digits)),
        None => (low, high.min(digits)),
    };
    match kind {
        None => (0, component),
        // A width counts characters, not bytes.
        Some(Kind::Name(_)) => (1, component),
        Some(Kind::Epoch(_)) => {
            let (low, mut high) = fixed(1, 19, digits);
            if width.is_none() && digits == high && rest[digits..].starts_with('.') {
                high += 1 + rest[digits + 1..]
                    .bytes()
                    .take_while(u8::is_ascii_digit)
                    .count();
            }
            (low, high)
        }
        Some(Kind::Iso) => {
            let taken = rest
                .bytes()
                .take_while(|byte| byte.is_ascii_digit() || b"TtZz-:+._, ".contains(byte))
                .count();
            (8, taken.min(40))
        }
        Some(Kind::Part(part)) => match part {
            Part::Year => fixed(4, 4, digits),
            Part::Day => fixed(1, 3, digits),
            Part::Fraction => fixed(1, 9, digits),
            _ => fixed(1, 2, digits),
        },
    }
}
