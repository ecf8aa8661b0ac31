//! Layouts: what the paths of a folder of recordings mean.
//!
//! A template is a relative path with `/` between components, made of
//! - literal text (`{{` and `}}` for braces);
//! - `*`, any text within a component;
//! - name fields such as `{station}`, whose values, in order of first appearance and joined by `/`, name the signal. A
//!   repeated field must have the same value;
//! - time fields: `{epoch}` (since 1970: `1267401600`, `1267401600.25`, or milli-, micro- and nanoseconds by the number
//!   of digits or as stated in `{epoch:us}`), `{iso}` (extended or compact), or `{year}`, `{month}`, `{day}` (of the
//!   year without `{month}`), `{hour}`, `{minute}`, `{second}`, `{fraction}`. Beside `{epoch}` or `{iso}`, calendar
//!   fields are labels without meaning, since folders are often named by local days; but an incomplete `{iso}`, such as
//!   a date, takes the time of day from them. `-0500` after a time is a zone only if literal text or nothing follows
//!   `{iso}`.
//!
//! `{field:width}` takes exactly that many characters. A field without width takes as many as it can while the rest
//! still matches. No field contains `/`, and no name is `.` or `..`, so no match leaves the folder.
//!
//! Matching is bounded backtracking over a flat list of [`Token`]s. A layout prints as its canonical template (adjacent
//! literals joined, braces doubled).

mod matching;
mod template;

use std::fmt;
use std::str::FromStr;

use crate::IngestError;
use crate::stamp::{CivilStamp, EpochUnit};

/// A parsed layout template.
///
/// ```
/// use isochrony_ingest::Layout;
/// let layout: Layout = "{station}/{sensor}/{station}_{epoch}.raw".parse()?;
/// let file = layout.read("stn_10/pressure/stn_10_1267401600.25.raw")?;
/// assert_eq!(file.signal, "stn_10/pressure");
/// assert_eq!(file.stamp.map(|stamp| stamp.resolution_ns), Some(10_000_000));
/// # Ok::<(), isochrony_ingest::IngestError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    tokens: Vec<Token>,
    names: Vec<String>,
    timed: bool,
}

/// What a file's path states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Values of the name fields joined by `/`.
    pub signal: String,
    /// Time of the first sample, if the layout has one.
    pub stamp: Option<CivilStamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Literal(String),
    /// `*`
    Any,
    Field {
        kind: Kind,
        width: Option<usize>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Index into `names`.
    Name(usize),
    Epoch(Option<EpochUnit>),
    Iso,
    Part(Part),
}

/// A calendar field, in the order of `Part::ALL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Fraction,
}

impl Part {
    const ALL: [(&'static str, Self); 7] = [
        ("year", Self::Year),
        ("month", Self::Month),
        ("day", Self::Day),
        ("hour", Self::Hour),
        ("minute", Self::Minute),
        ("second", Self::Second),
        ("fraction", Self::Fraction),
    ];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

impl Layout {
    /// The template of the CENSAM recordings (see [`Preset`]).
    pub const CENSAM: &'static str = "{station}/{year}/{day}/{sensor}/{station}_{epoch}.raw";

    /// Name fields in order.
    #[must_use]
    pub fn name_fields(&self) -> &[String] {
        &self.names
    }

    /// Whether the layout states when a file begins.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// Number of path components.
    #[must_use]
    pub fn depth(&self) -> usize {
        let slashes = |token: &Token| match token {
            Token::Literal(text) => text.matches('/').count(),
            _ => 0,
        };
        1 + self.tokens.iter().map(slashes).sum::<usize>()
    }

    /// Reads a path relative to the imported folder, with `/`.
    ///
    /// # Errors
    /// [`IngestError::Misnamed`] with the furthest matching position, [`IngestError::FieldDisagrees`],
    /// [`IngestError::ImpossibleStamp`].
    pub fn read(&self, path: &str) -> Result<Match, IngestError> {
        matching::read(self, path)
    }
}

impl FromStr for Layout {
    type Err = IngestError;

    /// Parses a template; errors state the position and a fix.
    fn from_str(template: &str) -> Result<Self, IngestError> {
        template::parse(template)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for token in &self.tokens {
            match token {
                Token::Literal(text) => {
                    f.write_str(&text.replace('{', "{{").replace('}', "}}"))?;
                }
                Token::Any => f.write_str("*")?,
                Token::Field { kind, width } => f.write_str(&self.field_text(*kind, *width))?,
            }
        }
        Ok(())
    }
}

impl Layout {
    fn field_text(&self, kind: Kind, width: Option<usize>) -> String {
        let name = match kind {
            Kind::Name(index) => &self.names[index],
            Kind::Epoch(_) => "epoch",
            Kind::Iso => "iso",
            Kind::Part(part) => part.name(),
        };
        let unit = match kind {
            Kind::Epoch(Some(unit)) => EpochUnit::ALL.iter().find(|(_, known)| *known == unit),
            _ => None,
        };
        match (unit, width) {
            (Some((unit, _)), _) => format!("{{{name}:{unit}}}"),
            (None, Some(width)) => format!("{{{name}:{width}}}"),
            (None, None) => format!("{{{name}}}"),
        }
    }
}

/// A layout and the properties of its recordings.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// Name for the command line.
    pub name: &'static str,
    /// Template of the paths.
    pub template: &'static str,
    /// NumPy spelling of the sample type.
    pub dtype: &'static str,
    /// Samples per second, numerator and denominator.
    pub rate: (u64, u64),
    /// Physical unit, empty if unknown.
    pub unit: &'static str,
    /// Samples of a complete file; a shorter one may still grow.
    pub file_samples: Option<u64>,
}

impl Preset {
    /// Every preset.
    pub const ALL: &'static [Self] = &[Self {
        name: "censam",
        template: Layout::CENSAM,
        dtype: "<i2",
        rate: (2000, 1),
        unit: "",
        file_samples: Some(60_000),
    }];

    /// Finds a preset.
    ///
    /// # Errors
    /// [`IngestError::UnknownPreset`].
    pub fn find(name: &str) -> Result<&'static Self, IngestError> {
        Self::ALL
            .iter()
            .find(|preset| preset.name == name)
            .ok_or_else(|| IngestError::UnknownPreset {
                name: name.into(),
                known: "\"censam\"",
            })
    }
}
