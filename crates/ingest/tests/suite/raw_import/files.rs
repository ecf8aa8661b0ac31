//! Bad files, impossible dates, both byte orders.

use super::*;

#[test]
fn bad_files_are_reported_and_nothing_else_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut recorder = Recorder::new(START, 2000.0, 0.0, 6000, MICRO);
    recorder.record(30);
    recorder.write(&source, "s", "p");
    let copy = &recorder.files[7];
    let bytes: Vec<u8> = copy
        .samples
        .iter()
        .flat_map(|sample| sample.to_le_bytes())
        .collect();
    let original = recorder.path("s", "p", copy);
    let duplicate = original.replace("/2010/", "/2011/");
    write(&source, &duplicate, &bytes);
    write(&source, "s/2010/060/p/notes.txt", b"hello");
    write(&source, "s/2010/060/p/t_1267401600000000.raw", b"hell");
    write(&source, "s/2010/060/p/s_1267401900000000.raw", b"");
    write(&source, "s/2010/060/p/s_1267401990000000.raw", b"odd");
    #[cfg(unix)]
    {
        // Reading a folder as a file fails even for root.
        std::os::unix::fs::symlink(
            "/nonexistent",
            source.join("s/2010/060/p/s_1267402000000000.raw"),
        )
        .unwrap();
    }
    let store = new_store(folder.path());
    let summary = import(&store, &source);
    let code = |path: &str| summary.problem(path).map(|problem| problem.code);
    let twice = [code(&original), code(&duplicate)];
    assert!(
        twice.contains(&Some("duplicate")) && twice.contains(&None),
        "{:?}",
        summary.problems
    );
    assert_eq!(code("s/2010/060/p/notes.txt"), Some("misnamed"));
    assert_eq!(
        code("s/2010/060/p/t_1267401600000000.raw"),
        Some("field_disagrees")
    );
    assert_eq!(
        code("s/2010/060/p/s_1267401900000000.raw"),
        Some("empty_file")
    );
    assert_eq!(
        code("s/2010/060/p/s_1267401990000000.raw"),
        Some("partial_sample")
    );
    #[cfg(unix)]
    assert_eq!(code("s/2010/060/p/s_1267402000000000.raw"), Some("io"));
    assert_eq!((summary.files, summary.duplicates), (30, 1));
    let signal = store.signal("s/p").unwrap();
    assert_eq!(samples(&signal), recorder.samples());
    assert_eq!((gaps(&signal).len(), signal.state().runs.len()), (0, 1));

    // The whole samples of the odd file; the rest is known.
    let mut options = RawOptions::preset("censam").unwrap();
    options.partial = true;
    let again = import_raw(&store, &source, &options, None).unwrap();
    assert_eq!((again.files, again.skipped), (1, 31));
    let signal = store.signal("s/p").unwrap();
    assert_eq!(signal.sample_count(), 30 * 6000 + 1);
    assert_eq!(samples(&signal)[30 * 6000], i16::from_le_bytes(*b"od"));
}

#[test]
fn a_file_dated_1970_takes_no_indices() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut early = Recorder::new(5 * SECOND, 2000.0, 0.0, 6000, MICRO);
    early.record(1);
    let mut recorder = Recorder::new(START, 2000.0, 0.0, 6000, MICRO);
    recorder.recorded = 6000;
    recorder.record(30);
    early.write(&source, "s", "p");
    recorder.write(&source, "s", "p");
    let store = new_store(folder.path());
    import(&store, &source);
    let signal = store.signal("s/p").unwrap();
    assert_eq!(
        samples(&signal),
        [early.samples(), recorder.samples()].concat()
    );
    assert!(signal.end_index() < 400_000, "{}", signal.end_index());
}

#[test]
fn big_endian_files_and_value_jumps() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    for (number, level) in [10_i16, 11, 500, 501].into_iter().enumerate() {
        let bytes = level.to_be_bytes().repeat(200);
        write(
            &source,
            &format!("a/{}.raw", 1_267_401_600 + 2 * number),
            &bytes,
        );
    }
    let store = new_store(folder.path());
    let layout = "{station}/{epoch}.raw".parse().unwrap();
    let rate = isochrony_time::Rate::from_hz(100).unwrap();
    let order = isochrony_segment::ByteOrder::Big;
    let mut options = RawOptions::new(layout, isochrony_segment::DType::I16, order, rate);
    options.session.value_jump = Some(100.0);
    import_raw(&store, &source, &options, None).unwrap();
    let signal = store.signal("a").unwrap();
    let expected: Vec<i16> = [10, 11, 500, 501]
        .into_iter()
        .flat_map(|level| vec![level; 200])
        .collect();
    assert_eq!(samples(&signal), expected);
    let jumps = events(&signal, "value_jump");
    assert_eq!(
        jumps
            .iter()
            .map(|event| (event.start, event.end))
            .collect::<Vec<_>>(),
        [(400, 400)]
    );
}
