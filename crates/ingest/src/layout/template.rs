//! Parses templates; refuses those that are ambiguous or could leave the folder.

use super::{Kind, Layout, Part, Token};
use crate::IngestError;
use crate::stamp::EpochUnit;

/// No file system has longer components.
const MAX_WIDTH: usize = 255;

/// Bounds the depth of matching.
const MAX_TEMPLATE: usize = 1000;

pub(super) fn parse(template: &str) -> Result<Layout, IngestError> {
    if template.is_empty() {
        return Err(IngestError::EmptyTemplate);
    }
    let length = template.chars().count();
    if length > MAX_TEMPLATE {
        return Err(IngestError::TemplateTooLong {
            length,
            max: MAX_TEMPLATE,
        });
    }
    let mut parser = Parser {
        template,
        names: Vec::new(),
        tokens: Vec::new(),
        at: Vec::new(),
    };
    parser.tokens()?;
    parser.check_components()?;
    parser.fix_widths();
    parser.check_touching()?;
    let timed = parser.check_time()?;
    Ok(Layout {
        tokens: parser.tokens,
        names: parser.names,
        timed,
    })
}

struct Parser<'a> {
    template: &'a str,
    names: Vec<String>,
    tokens: Vec<Token>,
    at: Vec<usize>,
}

impl Parser<'_> {
    fn tokens(&mut self) -> Result<(), IngestError> {
        let mut chars = self.template.chars().enumerate().peekable();
        while let Some((position, c)) = chars.next() {
            let at = position + 1;
            let doubled = chars.peek().is_some_and(|(_, next)| *next == c);
            match c {
                '{' | '}' if doubled => {
                    chars.next();
                    self.literal(c, at);
                }
                '}' => return Err(self.unbalanced(at, c)),
                '{' => {
                    let mut field = String::new();
                    loop {
                        match chars.next() {
                            Some((_, '}')) => break,
                            Some((_, '{' | '/')) | None => return Err(self.unbalanced(at, c)),
                            Some((_, c)) => field.push(c),
                        }
                    }
                    self.field(&field, at)?;
                }
                '*' if self.tokens.last() == Some(&Token::Any) => {}
                '*' => self.push(Token::Any, at),
                _ => self.literal(c, at),
            }
        }
        Ok(())
    }

    fn unbalanced(&self, at: usize, brace: char) -> IngestError {
        IngestError::UnbalancedBrace {
            template: self.template.into(),
            at,
            brace,
        }
    }

    fn push(&mut self, token: Token, at: usize) {
        self.tokens.push(token);
        self.at.push(at);
    }

    fn literal(&mut self, c: char, at: usize) {
        if let Some(Token::Literal(text)) = self.tokens.last_mut() {
            text.push(c);
        } else {
            self.push(Token::Literal(c.into()), at);
        }
    }

    fn field(&mut self, field: &str, at: usize) -> Result<(), IngestError> {
        let (name, spec) = match field.split_once(':') {
            Some((name, spec)) => (name, Some(spec)),
            None => (field, None),
        };
        let legal = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !legal {
            return Err(IngestError::InvalidField {
                template: self.template.into(),
                at,
                field: field.into(),
            });
        }
        let part = Part::ALL.iter().find(|(known, _)| *known == name);
        let mut kind = match (name, part) {
            ("epoch", _) => Kind::Epoch(None),
            ("iso", _) => Kind::Iso,
            (_, Some((_, part))) => Kind::Part(*part),
            _ => Kind::Name(self.name_index(name)),
        };
        let width = match (spec, kind) {
            (None, _) => None,
            (Some(spec), Kind::Epoch(_))
                if EpochUnit::ALL.iter().any(|(unit, _)| *unit == spec) =>
            {
                kind = Kind::Epoch(
                    EpochUnit::ALL
                        .iter()
                        .find(|(unit, _)| *unit == spec)
                        .map(|(_, unit)| *unit),
                );
                None
            }
            (Some(spec), _) => Some(self.width(name, spec, kind, at)?),
        };
        self.push(Token::Field { kind, width }, at);
        Ok(())
    }

    fn name_index(&mut self, name: &str) -> usize {
        self.names
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| {
                self.names.push(name.into());
                self.names.len() - 1
            })
    }

    fn width(&self, name: &str, spec: &str, kind: Kind, at: usize) -> Result<usize, IngestError> {
        let (range, legal) = match kind {
            Kind::Name(_) => (1..MAX_WIDTH + 1, "give a width from 1 to 255"),
            Kind::Epoch(_) => (1..20, "give s, ms, us, ns, or a width from 1 to 19"),
            Kind::Iso => (0..0, "it takes no width"),
            Kind::Part(Part::Year) => (4..5, "years have 4 digits"),
            Kind::Part(Part::Day) => (1..4, "give a width from 1 to 3"),
            Kind::Part(Part::Fraction) => (1..10, "give a width from 1 to 9"),
            Kind::Part(_) => (1..3, "give a width of 1 or 2"),
        };
        let digits = !spec.is_empty() && spec.bytes().all(|byte| byte.is_ascii_digit());
        spec.parse()
            .ok()
            .filter(|width| digits && range.contains(width))
            .ok_or_else(|| IngestError::InvalidFieldSpec {
                template: self.template.into(),
                at,
                field: name.into(),
                spec: spec.into(),
                legal,
            })
    }

    /// Every component must name something below the folder, for all field values.
    fn check_components(&self) -> Result<(), IngestError> {
        for component in self.template.split('/') {
            let reason = match component {
                "" if self.template.starts_with('/') => "it makes the path absolute",
                "" => "it is empty",
                "." | ".." => "it leads elsewhere",
                _ if component.contains(['\\', '\0']) => "it holds a backslash or a zero character",
                _ if component.chars().any(char::is_control) => "it holds a control character",
                _ => continue,
            };
            return Err(IngestError::InvalidComponent {
                template: self.template.into(),
                component: component.into(),
                reason,
            });
        }
        Ok(())
    }

    /// A number field beside another gets its canonical width, unless one is stated.
    fn fix_widths(&mut self) {
        let by_month = self.has(Part::Month);
        let is_part = |token: Option<&Token>| {
            matches!(
                token,
                Some(Token::Field {
                    kind: Kind::Part(_),
                    ..
                })
            )
        };
        for index in 0..self.tokens.len() {
            let touches = is_part(self.tokens.get(index + 1))
                || (index > 0 && is_part(self.tokens.get(index - 1)));
            if let Token::Field {
                kind: Kind::Part(part),
                width,
            } = &mut self.tokens[index]
            {
                let usual = match part {
                    Part::Year => Some(4),
                    Part::Day if !by_month => Some(3),
                    Part::Fraction => None,
                    _ => Some(2),
                };
                if width.is_none() && touches && *part != Part::Year {
                    *width = usual;
                }
            }
        }
    }

    fn has(&self, wanted: Part) -> bool {
        self.tokens.iter().any(
            |token| matches!(token, Token::Field { kind: Kind::Part(part), .. } if *part == wanted),
        )
    }

    /// Text must separate two tokens of open width, else their border is ambiguous. Any non-digit ends a number.
    fn check_touching(&self) -> Result<(), IngestError> {
        let mut open: Option<&Token> = None;
        for (token, at) in self.tokens.iter().zip(&self.at) {
            let fixed = match token {
                Token::Literal(_) => {
                    open = None;
                    continue;
                }
                Token::Any => false,
                Token::Field {
                    kind: Kind::Part(Part::Year),
                    ..
                } => true,
                Token::Field { width, .. } => width.is_some(),
            };
            if fixed {
                continue;
            }
            let digits = |token: &Token| matches!(token, Token::Field { kind, .. } if !matches!(kind, Kind::Name(_)));
            if let Some(first) = open.filter(|first| !(digits(first) && *token == Token::Any)) {
                return Err(IngestError::TouchingFields {
                    template: self.template.into(),
                    at: *at,
                    first: self.text(first),
                    second: self.text(token),
                });
            }
            open = Some(token);
        }
        Ok(())
    }

    fn text(&self, token: &Token) -> String {
        match token {
            Token::Literal(text) => text.clone(),
            Token::Any => "*".into(),
            Token::Field { kind, .. } => match kind {
                Kind::Name(index) => format!("{{{}}}", self.names[*index]),
                Kind::Epoch(_) => "{epoch}".into(),
                Kind::Iso => "{iso}".into(),
                Kind::Part(part) => format!("{{{}}}", part.name()),
            },
        }
    }

    /// Whether the template states a time; errors if it is incomplete.
    fn check_time(&self) -> Result<bool, IngestError> {
        let any = |wanted: fn(&Kind) -> bool| {
            self.tokens
                .iter()
                .any(|token| matches!(token, Token::Field { kind, .. } if wanted(kind)))
        };
        let epoch = any(|kind| matches!(kind, Kind::Epoch(_)));
        let iso = any(|kind| matches!(kind, Kind::Iso));
        if epoch && iso {
            return Err(IngestError::ConflictingTimeFields {
                template: self.template.into(),
                first: "epoch",
                second: "iso",
            });
        }
        if epoch || iso {
            return Ok(true);
        }
        let needs: [(Part, &[Part], &'static str); 6] = [
            (Part::Fraction, &[Part::Second], "{second}"),
            (Part::Second, &[Part::Minute], "{minute}"),
            (Part::Minute, &[Part::Hour], "{hour}"),
            (Part::Hour, &[Part::Day], "{day}"),
            (Part::Month, &[Part::Day], "{day}"),
            (
                Part::Year,
                &[Part::Day],
                "{day} (of the year, or with {month})",
            ),
        ];
        let missing = |(part, needed, text): (Part, &[Part], &'static str)| {
            (self.has(part) && !needed.iter().all(|part| self.has(*part))).then_some((part, text))
        };
        let missing = needs.into_iter().find_map(missing).or_else(|| {
            (self.has(Part::Day) && !self.has(Part::Year)).then_some((Part::Day, "{year}"))
        });
        match missing {
            Some((part, needs)) => Err(IngestError::MissingTimeField {
                template: self.template.into(),
                field: part.name(),
                needs,
            }),
            None => Ok(self.has(Part::Day)),
        }
    }
}
