//! Records as bytes: length, checksum and sequence before a payload.

pub(super) const RECORD_HEAD: usize = 16;

pub(crate) fn record_len(bytes: &[u8]) -> Option<usize> {
    match u32_at(bytes, 0)? {
        0 => None,
        len => Some((RECORD_HEAD + len as usize).next_multiple_of(8)),
    }
}

pub(super) fn record_at(bytes: &[u8], at: usize) -> Option<(u64, &[u8], usize)> {
    let len = u32_at(bytes, at)? as usize;
    let crc = u32_at(bytes, at + 4)?;
    let sequence = u64_at(bytes, at + 8)?;
    let payload = bytes.get(at + RECORD_HEAD..(at + RECORD_HEAD).checked_add(len)?)?;
    (record_crc(len as u32, sequence, payload) == crc).then(|| {
        (
            sequence,
            payload,
            (at + RECORD_HEAD + len).next_multiple_of(8),
        )
    })
}

pub(super) fn record_crc(len: u32, sequence: u64, payload: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&len.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &sequence.to_le_bytes());
    crc32c::crc32c_append(crc, payload)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(
        bytes.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}
