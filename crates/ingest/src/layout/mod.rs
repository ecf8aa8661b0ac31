//! Layouts: what the paths of a folder of recordings mean.
//!
//! A template is a relative path with `/` between components, made of
//! - literal text (`{{` and `}}` for braces);
//! - `*`, any text inside a component;
//! - name fields such as `{station}`: their values, in order of first appearance and joined by `/`, are the signal's
//!   name. A field that appears again must have the same value;
//! - time fields: `{epoch}` (since 1970: `1267401600`, `1267401600.25`, or milli-, micro- and nanoseconds, told by the
//!   number of digits or stated, as in `{epoch:us}`), `{iso}` (extended or compact), or `{year}`, `{month}`, `{day}`
//!   (of the year where there is no `{month}`), `{hour}`, `{minute}`, `{second}`, `{fraction}`. Beside `{epoch}` or
//!   `{iso}` calendar fields are labels that must be numbers and say nothing: folders are often named by local days.
//!   But an `{iso}` that ends early, such as a date alone, takes the time of day from them. `-0500` after a time is a
//!   zone only if literal text or nothing follows `{iso}` in the template; else it is as likely a counter.
//!
//! `{field:width}` takes exactly that many characters. A field without width takes as much as it can while the rest
//! still fits. No field contains `/`, and name fields are never `.` or `..`: nothing that matches leaves the folder.
//!
//! Data structure: a flat list of [`Token`]s, in which `/` is a literal like any other, matched by backtracking with a
//! bounded number of steps. Printing a layout gives its template in canonical form (adjacent literals joined, braces
//! doubled), which parses to the same layout.

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
    /// Names of the name fields, in order of first appearance.
    names: Vec<String>,
    /// Whether the template states when a file begins.
    timed: bool,
}

/// What the path of one file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Values of the name fields joined by `/`; empty if the layout has none.
    pub signal: String,
    /// Time of the first sample; `None` if the layout has no time field.
    pub stamp: Option<CivilStamp>,
}

/// One piece of a template.
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

/// What a field means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Part of the signal's name: index into `names`.
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
    /// The template of the pipeline recordings that this design was first made for (see [`Preset`]).
    pub const CENSAM: &'static str = "{station}/{year}/{day}/{sensor}/{station}_{epoch}.raw";

    /// Names of the fields that make the signal's name, in its order.
    #[must_use]
    pub fn name_fields(&self) -> &[String] {
        &self.names
    }

    /// Whether the layout tells when a file begins.
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

    /// Reads the path of a file, relative to the imported folder and with `/` between components.
    ///
    /// # Errors
    /// [`IngestError::Misnamed`] with the furthest position that fits, [`IngestError::FieldDisagrees`],
    /// [`IngestError::ImpossibleStamp`].
    pub fn read(&self, path: &str) -> Result<Match, IngestError> {
        matching::read(self, path)
    }
}

impl FromStr for Layout {
    type Err = IngestError;

    /// Parses a template; errors name the character or field at fault and a way to mend it.
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
    /// A field as written in the template.
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

/// A layout with what else is known of recordings made that way.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// Name, as given on the command line.
    pub name: &'static str,
    /// Template of the paths.
    pub template: &'static str,
    /// NumPy spelling of the sample type.
    pub dtype: &'static str,
    /// Samples per second, numerator and denominator.
    pub rate: (u64, u64),
    /// Physical unit, empty if unknown.
    pub unit: &'static str,
    /// Samples in a complete file; a shorter one may still grow.
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

    /// The preset of a name.
    ///
    /// # Errors
    /// [`IngestError::UnknownPreset`], which lists those that exist.
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
