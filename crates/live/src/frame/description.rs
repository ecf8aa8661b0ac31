//! A sender's description of its whole recording: the payload of a frame of version 2.
//!
//! The frame has index 0 and dtype `u1`, or `i1` if the recording's is `u1`: older receivers count it as malformed. The
//! payload is [`DESCRIPTION_TAG`] and a JSON object:
//!
//! | key | |
//! |---|---|
//! | `rate` | `[numerator, denominator]`, Hz |
//! | `unit` | of values; left out if unknown |
//! | `scale`, `offset` | of `value = count * scale + offset`, decimal numbers as text; left out where counts are values |
//! | `times` | `"all"`: a frame without a time has samples that have none |
//! | `attributes` | the user's, as an object |
//!
//! Unknown keys are ignored. A description is sent before the first samples and the end; over UDP also in between. The
//! first of a session counts.

use isochrony_segment::{Calibration, DType};
use isochrony_time::Rate;
use serde_json::{Map, Value, json};

use super::{FrameError, FrameHeader};

/// Start of the payload.
pub const DESCRIPTION_TAG: [u8; 8] = *b"ISODESC\x01";
/// A payload and its header fit a datagram.
pub const MAX_DESCRIPTION_BYTES: usize = 60_000;
const MAX_ATTRIBUTE_DEPTH: usize = 32;
const MAX_UNIT_BYTES: usize = 256;

/// A sender's description of its recording.
#[derive(Debug, Clone, PartialEq)]
pub struct SenderDescription {
    /// Nominal sample rate.
    pub rate: Rate,
    /// The unit, if known, with scale and offset.
    pub calibration: Calibration,
    /// Samples of frames without a time have none.
    pub knows_all_times: bool,
    /// The user's attributes.
    pub attributes: Map<String, Value>,
}

impl SenderDescription {
    /// Dtype of the frame for samples of `dtype`.
    #[must_use]
    pub fn carrier_dtype(dtype: DType) -> DType {
        match dtype {
            DType::U8 => DType::I8,
            _ => DType::U8,
        }
    }

    /// Whether a payload describes such samples.
    #[must_use]
    pub fn is_carried_by(header: &FrameHeader, samples: &[u8], dtype: DType) -> bool {
        header.dtype == Self::carrier_dtype(dtype) && samples.starts_with(&DESCRIPTION_TAG)
    }

    /// Appends the frame to `out`, without an illegal unit, and without attributes if the payload exceeds `most` bytes.
    pub fn write(&self, dtype: DType, session: u32, most: usize, out: &mut Vec<u8>) {
        let mut object = Map::new();
        object.insert("rate".into(), json!([self.rate.num(), self.rate.den()]));
        let unit = self.calibration.unit();
        if !unit.is_empty() && is_unit(unit) {
            object.insert("unit".into(), json!(unit));
        }
        if !self.calibration.is_identity() {
            let text = |number: f64| json!(number.to_string());
            object.insert("scale".into(), text(self.calibration.scale()));
            object.insert("offset".into(), text(self.calibration.offset()));
        }
        if self.knows_all_times {
            object.insert("times".into(), json!("all"));
        }
        let mut with_attributes = object.clone();
        with_attributes.insert("attributes".into(), json!(self.attributes));
        let text = |object: &Map<String, Value>| {
            let mut text = DESCRIPTION_TAG.to_vec();
            text.extend(json!(object).to_string().into_bytes());
            text
        };
        let long = text(&with_attributes);
        let fits = is_storable(&self.attributes) && long.len() <= most.min(MAX_DESCRIPTION_BYTES);
        let fits = fits && !self.attributes.is_empty();
        let samples = if fits { long } else { text(&object) };
        FrameHeader::new(Self::carrier_dtype(dtype), session, 0).write(&samples, out);
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`FrameError::Field`]: too long, malformed, or impossible.
    pub fn parse(samples: &[u8]) -> Result<Self, FrameError> {
        let wrong = |field| FrameError::Field {
            field,
            got: samples.len() as u64,
        };
        let text = samples.strip_prefix(&DESCRIPTION_TAG);
        let text = text.filter(|_| samples.len() <= MAX_DESCRIPTION_BYTES);
        let object: Map<String, Value> = text
            .and_then(|text| serde_json::from_slice(text).ok())
            .ok_or(wrong("description"))?;
        let rate: [u64; 2] = object
            .get("rate")
            .and_then(|rate| serde_json::from_value(rate.clone()).ok())
            .ok_or(wrong("rate of a description"))?;
        let rate = Rate::new(rate[0], rate[1]).map_err(|_| wrong("rate of a description"))?;
        let unit = match object.get("unit") {
            None => "",
            Some(Value::String(unit)) if is_unit(unit) => unit,
            Some(_) => return Err(wrong("unit of a description")),
        };
        let number = |key: &str, absent: f64| match object.get(key) {
            None => Some(absent),
            Some(Value::String(text)) => text.parse().ok(),
            Some(_) => None,
        };
        let calibration = number("scale", 1.0)
            .zip(number("offset", 0.0))
            .and_then(|(scale, offset)| Calibration::new(scale, offset, unit).ok())
            .ok_or(wrong("calibration of a description"))?;
        let attributes = match object.get("attributes") {
            None => Map::new(),
            Some(Value::Object(attributes)) if is_storable(attributes) => attributes.clone(),
            Some(_) => return Err(wrong("attributes of a description")),
        };
        Ok(Self {
            rate,
            calibration,
            knows_all_times: object.get("times").is_some_and(|times| times == "all"),
            attributes,
        })
    }
}

fn is_unit(text: &str) -> bool {
    text.len() <= MAX_UNIT_BYTES && !text.contains(char::is_control)
}

/// One key is the store's, and few programs read deep nesting.
fn is_storable(attributes: &Map<String, Value>) -> bool {
    let is_flat = |value: &Value| depth(value) <= MAX_ATTRIBUTE_DEPTH;
    !attributes.contains_key("isochrony") && attributes.values().all(is_flat)
}

/// The JSON parser limits it to 128 levels.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        Value::Object(values) => 1 + values.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn described() -> SenderDescription {
        SenderDescription {
            rate: Rate::new(200, 3).unwrap(),
            calibration: Calibration::new(1.1e-7, -0.25, "µPa").unwrap(),
            knows_all_times: true,
            attributes: json!({"place": "roof", "list": [1, {"deep": null}]})
                .as_object()
                .unwrap()
                .clone(),
        }
    }

    fn frame_of(one: &SenderDescription, dtype: DType, most: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        one.write(dtype, 9, most, &mut frame);
        frame
    }

    #[test]
    fn bytes_are_as_documented() {
        let frame = frame_of(&described(), DType::U8, MAX_DESCRIPTION_BYTES);
        let (header, samples) = FrameHeader::parse(&frame).unwrap();
        assert_eq!(
            (header.dtype, header.session, header.first),
            (DType::I8, 9, 0)
        );
        let text = "ISODESC\x01{\"rate\":[200,3],\"unit\":\"µPa\",\"scale\":\"0.00000011\",\"offset\":\"-0.25\",\"times\":\"all\",\
                    \"attributes\":{\"place\":\"roof\",\"list\":[1,{\"deep\":null}]}}";
        assert_eq!(std::str::from_utf8(samples).unwrap(), text);
        assert!(SenderDescription::is_carried_by(
            &header,
            samples,
            DType::U8
        ));
        assert!(!SenderDescription::is_carried_by(
            &header,
            samples,
            DType::I16
        ));
    }

    #[test]
    fn attributes_that_do_not_fit_are_omitted() {
        let frame = frame_of(&described(), DType::I16, 100);
        let (_, samples) = FrameHeader::parse(&frame).unwrap();
        let read = SenderDescription::parse(samples).unwrap();
        assert_eq!(read.calibration, described().calibration);
        assert!(read.attributes.is_empty());
    }

    #[test]
    fn impossible_descriptions_are_refused() {
        let long = "x".repeat(300);
        let huge = format!(
            r#"{{"rate":[1,1],"attributes":{{"a":"{}"}}}}"#,
            "x".repeat(MAX_DESCRIPTION_BYTES)
        );
        let deep = |levels| {
            let (open, close) = ("[".repeat(levels), "]".repeat(levels));
            format!(r#"{{"rate":[1,1],"attributes":{{"a":{open}{close}}}}}"#)
        };
        let texts = [
            "".into(),
            "[]".into(),
            "{}".into(),
            r#"{"rate":[0,1]}"#.into(),
            r#"{"rate":[1,0]}"#.into(),
            r#"{"rate":[1]}"#.into(),
            r#"{"rate":"100"}"#.into(),
            r#"{"rate":[1,1],"unit":7}"#.into(),
            format!(r#"{{"rate":[1,1],"unit":"{long}"}}"#),
            r#"{"rate":[1,1],"unit":"a\u001b[2J"}"#.into(),
            r#"{"rate":[1,1],"scale":"0"}"#.into(),
            r#"{"rate":[1,1],"scale":"nan"}"#.into(),
            r#"{"rate":[1,1],"scale":2}"#.into(),
            r#"{"rate":[1,1],"offset":"inf"}"#.into(),
            r#"{"rate":[1,1],"attributes":[]}"#.into(),
            r#"{"rate":[1,1],"attributes":{"isochrony":{}}}"#.into(),
            huge,
            deep(33),
            deep(9999),
        ];
        for text in texts {
            let text: String = text;
            let samples = [&DESCRIPTION_TAG[..], text.as_bytes()].concat();
            let parsed = SenderDescription::parse(&samples);
            assert!(parsed.is_err(), "{text}: {parsed:?}");
        }
        assert!(SenderDescription::parse(b"{\"rate\":[1,1]}").is_err());
    }

    proptest! {
        #[test]
        fn frames_survive_a_round_trip(
            num in 1u64..1 << 40, den in 1u64..1 << 20, scale in any::<f64>(), offset in any::<f64>(),
            unit in "[^\\p{Cc}]{0,60}", knows_all_times in any::<bool>(), words in prop::collection::btree_map("[a-h]{1,9}", ".*", 0..5),
        ) {
            let calibration = Calibration::new(scale, offset, unit.as_str());
            let one = SenderDescription {
                rate: Rate::new(num, den).unwrap(),
                calibration: calibration.unwrap_or_else(|_| Calibration::identity(unit)),
                knows_all_times,
                attributes: words.into_iter().map(|(key, word)| (key, json!(word))).collect(),
            };
            for dtype in [DType::U8, DType::I8, DType::F32] {
                let frame = frame_of(&one, dtype, MAX_DESCRIPTION_BYTES);
                let (header, samples) = FrameHeader::parse(&frame).unwrap();
                prop_assert!(SenderDescription::is_carried_by(&header, samples, dtype));
                prop_assert_eq!(SenderDescription::parse(samples), Ok(one.clone()));
            }
        }

        #[test]
        fn any_bytes_are_parsed_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = SenderDescription::parse(&[&DESCRIPTION_TAG[..], &bytes].concat());
        }
    }
}
