//! Results of processors.

/// A processor's result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Of a hash or checksum.
    Digest(Digest),
    /// Of samples.
    Statistics(Statistics),
    /// Of a search.
    Matches(Matches),
    /// Of compression or conversion.
    Sizes(Sizes),
}

/// A hash or checksum, in the order in which it is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Digest {
    /// Lower-case hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        use std::fmt::Write;
        self.bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // Writing to a string does not fail.
            text
        })
    }
}

/// Statistics of a stream's finite samples.
///
/// Extremes are exact: `Int` or `Float`. Without finite samples they and the mean are NaN.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Finite samples.
    pub count: u64,
    /// NaN and infinite samples, otherwise excluded.
    pub nonfinite: u64,
    /// Smallest.
    pub min: Value,
    /// Largest.
    pub max: Value,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sum of squared deviations.
    pub m2: f64,
}

impl Statistics {
    /// Population standard deviation; NaN without samples.
    #[must_use]
    pub fn std(&self) -> f64 {
        (self.m2 / self.count as f64).sqrt()
    }
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Matches {
    /// Matches of all patterns.
    pub total: u64,
    /// Matches per pattern, in the order given.
    pub patterns: Vec<PatternCount>,
    /// Offset and pattern of the first matches, as many as requested.
    pub offsets: Vec<(u64, usize)>,
}

/// Matches of one pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternCount {
    /// The pattern.
    pub pattern: Vec<u8>,
    /// Number of matches.
    pub count: u64,
}

/// Bytes of input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Bytes of input.
    pub bytes_in: u64,
    /// Bytes of output.
    pub bytes_out: u64,
}

/// A field's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// An integer.
    Int(i128),
    /// A number.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Value>),
}

impl Outcome {
    /// Names and values of all fields.
    ///
    /// A digest has `hex`; statistics `count`, `nonfinite`, `min`, `max`, `mean`, `std`, `m2`; a search `total`,
    /// `patterns` (pattern and count), `offsets` (offset and number of the pattern); output `bytes_in`, `bytes_out`.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, Value)> {
        let int = |value: u64| Value::Int(i128::from(value));
        match self {
            Self::Digest(digest) => vec![("hex", Value::Text(digest.hex()))],
            Self::Statistics(s) => vec![
                ("count", int(s.count)),
                ("nonfinite", int(s.nonfinite)),
                ("min", s.min.clone()),
                ("max", s.max.clone()),
                ("mean", Value::Float(s.mean)),
                ("std", Value::Float(s.std())),
                ("m2", Value::Float(s.m2)),
            ],
            Self::Matches(found) => {
                let pair = |a, b| Value::List(vec![a, b]);
                let patterns = found
                    .patterns
                    .iter()
                    .map(|p| pair(Value::Bytes(p.pattern.clone()), int(p.count)));
                let offsets = found
                    .offsets
                    .iter()
                    .map(|&(offset, pattern)| pair(int(offset), int(pattern as u64)));
                vec![
                    ("total", int(found.total)),
                    ("patterns", Value::List(patterns.collect())),
                    ("offsets", Value::List(offsets.collect())),
                ]
            }
            Self::Sizes(sizes) => vec![
                ("bytes_in", int(sizes.bytes_in)),
                ("bytes_out", int(sizes.bytes_out)),
            ],
        }
    }
}
