//! Names of processors, and what such a chain makes of bytes cut anywhere: the same as of one piece.
#![no_main]

use isochrony_bytes::{BytesError, Chain, JoinOutcome, Outcome, Piece};

fn run(chain: &Chain, bytes: &[u8], length: usize) -> Result<(Vec<Outcome>, Vec<u8>), BytesError> {
    let (mut part, mut state) = (chain.part(), chain.state());
    let (mut offset, mut output) = (0, vec![]);
    for bytes in bytes.chunks(length) {
        let piece = Piece { offset, bytes };
        chain.scan(piece, &mut part)?;
        loop {
            let joined = chain.join(piece, &mut part, &mut state)?;
            output.extend(part.output().concat());
            // Decompression is bounded in memory, not in time.
            if joined == JoinOutcome::Done || output.len() > 1 << 22 {
                break;
            }
        }
        if output.len() > 1 << 22 {
            return Ok((vec![], vec![]));
        }
        offset = piece.end();
    }
    let outcomes = chain.finish(&mut state)?;
    output.extend_from_slice(state.output());
    Ok((outcomes, output))
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // A line of names separated by spaces, then the bytes.
    let Some(end) = data.iter().position(|&byte| byte == b'\n') else {
        return;
    };
    let (Ok(names), bytes) = (std::str::from_utf8(&data[..end]), &data[end + 1..]) else {
        return;
    };
    // High levels take hundreds of megabytes, as documented.
    if names.contains("zstd:1") || names.contains("zstd:2") {
        return;
    }
    let names: Vec<&str> = names.split(' ').collect();
    let chain = match Chain::parse(&names) {
        Ok(chain) => chain,
        Err(error) => {
            assert!(!error.code().is_empty() && !error.to_string().is_empty());
            return;
        }
    };
    let whole = run(&chain, bytes, bytes.len().max(1));
    let cut = run(&chain, bytes, 1 + bytes.len() / 7);
    match (whole, cut) {
        (Ok((whole, output)), Ok((cut, cut_output))) => {
            let frames = names
                .iter()
                .any(|name| name.trim().starts_with("zstd") || name.trim().starts_with("gzip"));
            if !frames {
                assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
                assert!(output == cut_output);
            }
        }
        (Err(whole), Err(cut)) => assert_eq!(whole.code(), cut.code()),
        (whole, cut) => panic!("one piece gives {whole:?}, several {cut:?}"),
    }
});
