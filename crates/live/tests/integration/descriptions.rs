//! How a listener handles true and false descriptions.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use isochrony_flow::{IfExists, Plan, Recording, SharedRecording, SignalLocation, SignalSink};
use isochrony_live::frame::{
    DESCRIPTION_TAG, FrameHeader, MAX_DESCRIPTION_BYTES, SenderDescription,
};
use isochrony_live::send::Sender;
use isochrony_live::{ListenOptions, Listener};
use isochrony_segment::{Calibration, DType};
use isochrony_store::{Mode, Store};
use isochrony_time::Rate;
use serde_json::{Map, json};

fn rate() -> Rate {
    Rate::from_hz(1000).unwrap()
}

fn described(unit: &str) -> SenderDescription {
    SenderDescription {
        rate: rate(),
        calibration: Calibration::new(0.5, 2.0, unit).unwrap(),
        knows_all_times: true,
        attributes: Map::new(),
    }
}

fn listener(at: &str) -> Listener {
    let mut options = ListenOptions::new(DType::I16, rate());
    options.silence = Some(Duration::from_secs(2));
    Listener::bind(&at.parse().unwrap(), &options).unwrap()
}

#[test]
fn receivers_without_descriptions_see_one_frame_of_another_dtype() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tcp://{}", socket.local_addr().unwrap());
    let sender = Sender::connect(&to.parse().unwrap(), DType::I16, rate()).unwrap();
    let mut sender = sender.with_description(&described("Pa"));
    let (mut stream, _) = socket.accept().unwrap();
    sender.skip(7);
    sender.send(&[1i16, 2, 3], None).unwrap();
    sender.skip(5);
    sender.end().unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let mut frames = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let len = FrameHeader::frame_len(rest).unwrap().unwrap();
        assert_eq!(rest[4], 2);
        let (header, _) = FrameHeader::parse(&rest[..len]).unwrap();
        frames.push((
            header.dtype,
            header.first,
            header.samples,
            header.gap,
            header.end,
        ));
        rest = &rest[len..];
    }
    let text = frames[1].2;
    assert_eq!(
        frames,
        [
            (DType::I16, 0, 0, 0, false),
            (DType::U8, 0, text, 0, false),
            (DType::I16, 7, 3, 7, false),
            (DType::I16, 15, 0, 5, true),
        ]
    );
}

#[test]
fn a_recording_without_samples_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let listener = listener("tcp://127.0.0.1:0");
    let to = listener.address();
    let sending = std::thread::spawn(move || {
        let sender = Sender::connect(&to, DType::I16, rate()).unwrap();
        let mut sender = sender.with_description(&described("Pa"));
        sender.skip(1234);
        sender.end().unwrap();
    });
    let plan = Plan::scan_shared(SharedRecording::new(listener.clone()));
    let place = SignalLocation::new(&store, "a");
    plan.sink(SignalSink::new(place, IfExists::Refuse))
        .unwrap()
        .run()
        .unwrap();
    sending.join().unwrap();
    let signal = store.signal("a").unwrap();
    assert_eq!((signal.end_index(), signal.sample_count()), (1234, 0));
    assert_eq!(*signal.calibration(), described("Pa").calibration);
    assert_eq!(listener.counts().lost_samples, 0);
}

#[test]
fn only_descriptions_repeated_by_the_current_session_count() {
    let listener = listener("udp://127.0.0.1:0");
    let to = listener.address().to_string();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to.strip_prefix("udp://").unwrap()).unwrap();
    let described_by = |session, description: SenderDescription| {
        let mut frame = Vec::new();
        description.write(DType::I16, session, MAX_DESCRIPTION_BYTES, &mut frame);
        frame
    };
    let text = |text: &str| {
        let samples = [&DESCRIPTION_TAG[..], text.as_bytes()].concat();
        let mut frame = Vec::new();
        FrameHeader::new(DType::U8, 7, 0).write(&samples, &mut frame);
        frame
    };
    let other_rate = SenderDescription {
        rate: Rate::from_hz(7).unwrap(),
        ..described("Pa")
    };
    let malformed = [
        described_by(7, other_rate),
        described_by(7, described("V")),
        text("{\"rate\":[1000,1],\"unit\":\"\\u001b[2J\"}"),
        text("{\"rate\":[1000,1],\"scale\":\"nan\"}"),
        text("nonsense"),
        {
            let mut changed = described_by(7, described("V"));
            changed[70] ^= 1;
            changed
        },
    ];
    let sending = std::thread::spawn(move || {
        let send = |frame: &[u8]| socket.send(frame).unwrap();
        send(&described_by(3, described("lie")));
        // One datagram may come from anybody.
        send(&described_by(7, described("lie")));
        (0..3).for_each(|_| _ = send(&described_by(7, described("Pa"))));
        for number in 0..40u64 {
            let mut frame = Vec::new();
            FrameHeader::new(DType::I16, 7, number * 10).write(&[1; 20], &mut frame);
            send(&frame);
            if let Some(one) = malformed.get(number as usize / 5)
                && number % 5 == 0
            {
                send(one);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        send(&described_by(7, described("Pa")));
        let mut end = Vec::new();
        let header = FrameHeader::new(DType::I16, 7, 400);
        FrameHeader {
            end: true,
            ..header
        }
        .write(&[], &mut end);
        send(&end);
    });
    let plan = Plan::scan_shared(SharedRecording::new(listener.clone()));
    let gathered = plan.collect().unwrap();
    sending.join().unwrap();
    assert_eq!(gathered.array().unwrap().shape, [400]);
    assert_eq!(listener.counts().malformed_frames, 6);
    assert_eq!(listener.sender_unit().as_deref(), Some("Pa"));
    let description = Recording::description(&listener).unwrap();
    assert_eq!(description.calibration, described("Pa").calibration);
    assert_eq!(
        description.attributes,
        json!({}).as_object().unwrap().clone()
    );
}

#[test]
fn impossible_outer_gaps_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let listener = listener("tcp://127.0.0.1:0");
    let to = listener.address();
    let sending = std::thread::spawn(move || {
        let mut sender = Sender::connect(&to, DType::I16, rate()).unwrap();
        sender.skip(1 << 60);
        sender.send(&[1i16, 2, 3], None).unwrap();
        sender.skip(1 << 59);
        sender.end().unwrap();
    });
    let plan = Plan::scan_shared(SharedRecording::new(listener.clone()));
    let place = SignalLocation::new(&store, "a");
    plan.sink(SignalSink::new(place, IfExists::Refuse))
        .unwrap()
        .run()
        .unwrap();
    sending.join().unwrap();
    let signal = store.signal("a").unwrap();
    assert_eq!((signal.end_index(), signal.sample_count()), (3, 3));
}
