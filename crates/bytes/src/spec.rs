//! Parses processors: `NAME[,OPTION[=VALUE]]...[:ARGUMENT]`.
//!
//! | text | processor |
//! |---|---|
//! | `stats:DTYPE` | [statistics](crate::stats) of samples |
//! | `md5` `sha256` `sha512` `blake3` `xxh3` `xxh3-128` `crc32c` | [digests](crate::digest) |
//! | `zstd[:LEVEL]` `gzip[:LEVEL]` `unzstd[,window=LOG]` `gunzip` | [compression](crate::compress); default levels 3 and 6, windows of 2^26 bytes |
//! | `convert[,scale=X][,offset=X][,saturate]:DTYPE:DTYPE` | [conversion](crate::convert) |
//! | `count[,overlapping][,ignore-case]:PATTERN[\|PATTERN]...` | [search](crate::search) |
//! | `find[,keep=N][,overlapping][,ignore-case]:PATTERN[\|PATTERN]...` | search with the first N (1,000) positions |
//!
//! A dtype is spelled as in NumPy: `<i2`, `float32`. The patterns are all that follows the colon, separated by `|`,
//! with the escapes `\n`, `\r`, `\t`, `\0`, `\\`, `\|` and `\xHH`.

use isochrony_segment::{ByteOrder, DType};

use crate::convert::{Conversion, convert};
use crate::digest::{Algorithm, digest};
use crate::processor::AnyProcessor;
use crate::samples::DTYPES;
use crate::search::{Search, named_search};
use crate::{BytesError, compress, stats};

const KNOWN: &str = "stats:DTYPE, md5, sha256, sha512, blake3, xxh3, xxh3-128, crc32c, zstd[:LEVEL], gzip[:LEVEL], unzstd, gunzip, convert:FROM:TO, count:PATTERN, find:PATTERN";

const KEEP: usize = 1000;

struct Text<'a> {
    name: &'a str,
    options: Vec<(&'a str, Option<&'a str>)>,
    argument: Option<&'a str>,
}

impl<'a> Text<'a> {
    fn new(text: &'a str) -> Self {
        let (head, argument) = match text.split_once(':') {
            Some((head, argument)) => (head, Some(argument)),
            None => (text, None),
        };
        let mut words = head.split(',');
        Self {
            name: words.next().unwrap_or_default().trim(),
            options: words
                .map(|word| match word.split_once('=') {
                    Some((option, value)) => (option.trim(), Some(value.trim())),
                    None => (word.trim(), None),
                })
                .collect(),
            argument,
        }
    }

    fn refuse(&self, parameter: &str, got: &str, allowed: &str) -> BytesError {
        BytesError::Parameter {
            processor: self.name.into(),
            parameter: parameter.into(),
            got: got.into(),
            allowed: allowed.into(),
        }
    }

    /// How the name is written, with an example.
    fn form(&self) -> String {
        match self.name {
            "stats" => format!("stats:DTYPE, such as stats:<i2; DTYPE is {DTYPES}"),
            "zstd" => "zstd[:LEVEL], such as zstd:3".into(),
            "gzip" => "gzip[:LEVEL], such as gzip:6".into(),
            "unzstd" => "unzstd[,window=LOG], such as unzstd,window=27".into(),
            "convert" => {
                "convert[,scale=X][,offset=X][,saturate]:FROM:TO, such as convert:<i2:<f4".into()
            }
            "count" => "count[,overlapping][,ignore-case]:PATTERN, such as count:needle".into(),
            "find" => {
                "find[,keep=N][,overlapping][,ignore-case]:PATTERN, such as find:needle".into()
            }
            name => name.into(),
        }
    }

    /// The required argument.
    fn wanted(&self, missing: &'static str) -> Result<&'a str, BytesError> {
        self.argument.ok_or_else(|| BytesError::MissingArgument {
            processor: self.name.into(),
            missing,
            form: self.form(),
        })
    }

    fn unknown_option(&self, option: &str) -> BytesError {
        BytesError::UnknownOption {
            processor: self.name.into(),
            option: option.into(),
            form: self.form(),
        }
    }

    /// Checks that there are no options.
    fn check_no_options(&self) -> Result<(), BytesError> {
        match self.options.first() {
            Some((option, _)) => Err(self.unknown_option(option)),
            None => Ok(()),
        }
    }

    /// Checks that there is no argument.
    fn check_no_argument(&self) -> Result<(), BytesError> {
        match self.argument {
            Some(argument) => Err(BytesError::UnexpectedArgument {
                processor: self.name.into(),
                argument: argument.into(),
                form: self.form(),
            }),
            None => Ok(()),
        }
    }

    fn dtype(&self, text: &str) -> Result<(DType, ByteOrder), BytesError> {
        match DType::parse(text) {
            Ok((DType::Bool | DType::C64 | DType::C128, _)) | Err(_) => {
                Err(self.refuse("dtype", text, DTYPES))
            }
            Ok(parsed) => Ok(parsed),
        }
    }

    fn number<T: std::str::FromStr>(
        &self,
        parameter: &str,
        text: Option<&str>,
        allowed: &str,
    ) -> Result<T, BytesError> {
        let text = text.unwrap_or_default();
        text.parse()
            .map_err(|_| self.refuse(parameter, text, allowed))
    }

    fn flag(&self, option: &str, value: Option<&str>) -> Result<bool, BytesError> {
        match value {
            None => Ok(true),
            Some(value) => Err(self.refuse(option, value, "it without a value")),
        }
    }
}

pub(crate) fn parse(text: &str) -> Result<AnyProcessor, BytesError> {
    let text = Text::new(text);
    if let Some(algorithm) = Algorithm::ALL.into_iter().find(|a| a.name() == text.name) {
        text.check_no_options()?;
        text.check_no_argument()?;
        return Ok(digest(algorithm));
    }
    match text.name {
        "stats" => {
            text.check_no_options()?;
            let (dtype, order) = text.dtype(text.wanted("a dtype")?)?;
            stats::statistics(dtype, order)
        }
        "zstd" => {
            text.check_no_options()?;
            compress::zstd(level(&text, 3, &compress::ZSTD_LEVELS)?)
        }
        "gzip" => {
            text.check_no_options()?;
            compress::gzip(level(&text, 6, &compress::GZIP_LEVELS)?)
        }
        "unzstd" => {
            text.check_no_argument()?;
            let mut window = compress::WINDOW_LOG;
            for &(option, value) in &text.options {
                match option {
                    "window" => window = text.number(option, value, "a whole number")?,
                    _ => return Err(text.unknown_option(option)),
                }
            }
            compress::unzstd(window)
        }
        "gunzip" => {
            text.check_no_options()?;
            text.check_no_argument()?;
            Ok(compress::gunzip())
        }
        "convert" => conversion(&text),
        "count" | "find" => patterns(&text),
        name => Err(BytesError::Unknown {
            name: name.into(),
            known: KNOWN.into(),
        }),
    }
}

fn level(
    text: &Text<'_>,
    usual: i32,
    allowed: &std::ops::RangeInclusive<i32>,
) -> Result<i32, BytesError> {
    match text.argument {
        None => Ok(usual),
        Some(_) => text.number(
            "level",
            text.argument.map(str::trim),
            &format!(
                "a whole number from {} to {}",
                allowed.start(),
                allowed.end()
            ),
        ),
    }
}

fn conversion(text: &Text<'_>) -> Result<AnyProcessor, BytesError> {
    let argument = text.wanted("two dtypes")?;
    let (from, to) = argument
        .split_once(':')
        .ok_or_else(|| text.refuse("dtypes", argument, "two, as in convert:<i2:<f4"))?;
    let mut conversion = Conversion::new(text.dtype(from)?, text.dtype(to)?);
    for &(option, value) in &text.options {
        match option {
            "scale" => conversion.scale = text.number(option, value, "a number")?,
            "offset" => conversion.offset = text.number(option, value, "a number")?,
            "saturate" => conversion.saturate = text.flag(option, value)?,
            _ => return Err(text.unknown_option(option)),
        }
    }
    convert(conversion)
}

fn patterns(text: &Text<'_>) -> Result<AnyProcessor, BytesError> {
    let mut wanted = Search {
        patterns: unescape(text, text.wanted("a pattern")?)?,
        keep: if text.name == "find" { KEEP } else { 0 },
        ..Search::default()
    };
    for &(option, value) in &text.options {
        match option {
            "overlapping" => wanted.overlapping = text.flag(option, value)?,
            "ignore-case" => wanted.ignore_case = text.flag(option, value)?,
            "keep" if text.name == "find" => {
                wanted.keep = text.number(option, value, "a whole number")?;
            }
            _ => return Err(text.unknown_option(option)),
        }
    }
    named_search(text.name, wanted)
}

fn unescape(text: &Text<'_>, argument: &str) -> Result<Vec<Vec<u8>>, BytesError> {
    let refuse = |got: &str| {
        text.refuse(
            "escape",
            got,
            "one of \\n \\r \\t \\0 \\\\ \\| \\xHH (write \\\\ for a backslash)",
        )
    };
    let (mut patterns, mut pattern) = (Vec::new(), Vec::new());
    let mut rest = argument;
    while let Some(next) = rest.chars().next() {
        let (now, later) = rest.split_at(next.len_utf8());
        rest = later;
        match next {
            '|' => patterns.push(std::mem::take(&mut pattern)),
            '\\' => {
                let escape = rest.chars().next().ok_or_else(|| refuse("\\"))?;
                let (_, later) = rest.split_at(escape.len_utf8());
                rest = later;
                pattern.push(match escape {
                    'n' => b'\n',
                    'r' => b'\r',
                    't' => b'\t',
                    '0' => 0,
                    '\\' => b'\\',
                    '|' => b'|',
                    'x' => {
                        let digits: String = rest.chars().take(2).collect();
                        // `from_str_radix` accepts a sign, too.
                        let hexadecimal = digits.len() == 2
                            && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                        if !hexadecimal {
                            return Err(refuse(&format!("\\x{digits}")));
                        }
                        rest = &rest[2..];
                        u8::from_str_radix(&digits, 16).map_err(|_| refuse(&digits))?
                    }
                    other => return Err(refuse(&format!("\\{other}"))),
                });
            }
            _ => pattern.extend_from_slice(now.as_bytes()),
        }
    }
    patterns.push(pattern);
    Ok(patterns)
}
