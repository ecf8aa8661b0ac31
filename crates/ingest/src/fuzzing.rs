//! Entry points of the fuzz targets; not public API.

use isochrony_segment::DType;

use crate::{EncodedSamples, Layout, RecordRun};

/// Template, newline, path: the layout survives print and parse; no path panics or names a signal outside the store.
pub fn layout(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (template, path) = text.split_once('\n').unwrap_or((text, text));
    let Ok(layout) = template.parse::<Layout>() else {
        return;
    };
    let printed = layout.to_string();
    assert_eq!(
        printed.parse::<Layout>().ok().as_ref(),
        Some(&layout),
        "{template:?} printed as {printed:?}"
    );
    if let Ok(found) = layout.read(path) {
        assert!(
            found
                .signal
                .split('/')
                .all(|part| !matches!(part, "." | "..")),
            "{found:?}"
        );
        assert!(
            found.stamp.is_none_or(|stamp| stamp.resolution_ns > 0),
            "{found:?}"
        );
    }
}

/// Encoding, byte order, sample count, payload: the count matches; Steim samples begin and end as stored.
pub fn mseed_samples(data: &[u8]) {
    let Some((&[encoding, order, high, low], payload)) = data.split_first_chunk() else {
        return;
    };
    let count = usize::from(u16::from_be_bytes([high, low]));
    let little_endian = order & 1 == 1;
    let encoded = EncodedSamples {
        payload,
        encoding,
        little_endian,
        count,
    };
    let Some((dtype, buffer)) = encoded.decode() else {
        return;
    };
    assert_eq!(buffer.len(), count * dtype.size());
    if matches!(encoding, 10 | 11) {
        let stored: Vec<i32> = payload[4..12]
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&bytes| match little_endian {
                true => i32::from_le_bytes(bytes),
                false => i32::from_be_bytes(bytes),
            })
            .collect();
        assert_eq!(dtype, DType::I32);
        let samples = buffer.samples::<i32>().unwrap_or_default();
        assert_eq!(samples.first(), Some(&stored[0]));
        assert_eq!(samples.last(), Some(&stored[1]));
    }
}

/// Rest of the file (two bytes), window: a run lies within the input, and its parts are adjacent.
pub fn mseed_run(data: &[u8]) {
    let Some((&[from, behind], window)) = data.split_first_chunk() else {
        return;
    };
    let rest = window.len() + usize::from(behind);
    let run = RecordRun::find(window, from.into(), 4096, rest);
    assert!(run.bytes.start == usize::from(from) && run.bytes.len() <= 4096);
    assert_eq!(run.bytes.is_empty(), run.records == 0);
    assert!(run.bytes.end <= window.len() || run.records == 0);
    let parts = run.decode(window).unwrap_or_default();
    let (mut at, mut records) = (run.bytes.start, 0);
    for part in parts {
        assert_eq!(part.bytes.start, at);
        at = part.bytes.end;
        let Some(samples) = part.samples else {
            records += 1;
            continue;
        };
        assert_eq!(samples.counts.len(), samples.starts.len());
        let count: i64 = samples.counts.iter().sum();
        assert_eq!(samples.samples.len(), count as usize * samples.dtype.size());
        records += samples.counts.len();
    }
    assert_eq!((at, records), (run.bytes.end, run.records));
}
