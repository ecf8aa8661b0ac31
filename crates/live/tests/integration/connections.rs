//! Senders that reconnect, restart or stall.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use isochrony_flow::{Plan, SharedRecording};
use isochrony_live::frame::FrameHeader;
use isochrony_live::send::Sender;
use isochrony_live::{Address, ListenOptions, Listener};
use isochrony_segment::DType;
use isochrony_time::{Fixed, Rate};

const TCP: &str = "tcp://127.0.0.1:0";
const UDP: &str = "udp://127.0.0.1:0";

fn rate() -> Rate {
    Rate::from_hz(10_000).unwrap()
}

fn listen(at: &str) -> Listener {
    let mut options = ListenOptions::new(DType::I32, rate());
    options.silence = Some(Duration::from_secs(20));
    Listener::bind(&at.parse().unwrap(), &options).unwrap()
}

fn at(listener: &Listener) -> SocketAddr {
    match listener.address() {
        Address::Udp(at) | Address::Tcp(at) => at,
        other => panic!("{other}"),
    }
}

fn collecting(listener: &Listener) -> JoinHandle<Vec<i32>> {
    let plan = Plan::scan_shared(SharedRecording::new(listener.clone()));
    spawn(move || plan.collect().unwrap().array().unwrap().to_vec().unwrap())
}

fn ramp(from: i32, count: i32) -> Vec<i32> {
    (from..from + count).collect()
}

fn frame(session: u32, first: u64, from: i32, change: impl FnOnce(&mut FrameHeader)) -> Vec<u8> {
    let mut header = FrameHeader::new(DType::I32, session, first);
    change(&mut header);
    let mut out = Vec::new();
    let samples = if header.end {
        Vec::new()
    } else {
        ramp(from, 100)
    };
    let bytes: Vec<u8> = samples
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect();
    header.write(&bytes, &mut out);
    out
}

#[test]
fn a_sender_that_reconnects_at_once_loses_nothing() {
    let listener = listen(TCP);
    let got = collecting(&listener);
    for k in 0..60 {
        let mut sender = Sender::connect(&listener.address(), DType::I32, rate()).unwrap();
        sender.send(&ramp(k * 10_000, 10_000), None).unwrap();
        if k == 59 {
            sender.end().unwrap();
        }
    }
    assert_eq!(got.join().unwrap(), ramp(0, 600_000));
    let counts = listener.counts();
    assert_eq!(
        (counts.samples, counts.lost_samples, counts.foreign),
        (600_000, 0, 0)
    );
    assert_eq!(counts.clock_steps, 59);
}

#[test]
fn a_session_on_a_connection_is_admitted_from_its_first_frame() {
    let listener = listen(TCP);
    let got = collecting(&listener);
    let mut stream = TcpStream::connect(at(&listener)).unwrap();
    for session in 0..5 {
        for k in 0..3 {
            let from = session * 300 + k * 100;
            let first = 77 + 100 * k as u64;
            stream
                .write_all(&frame(session as u32, first, from, |_| {}))
                .unwrap();
        }
    }
    stream
        .write_all(&frame(4, 377, 0, |header| header.end = true))
        .unwrap();
    assert_eq!(got.join().unwrap(), ramp(0, 1500));
    assert_eq!(listener.counts().foreign, 0);
}

#[test]
fn silent_and_slow_peers_do_not_block_others() {
    let listener = listen(TCP);
    let got = collecting(&listener);
    let whole = frame(1, 0, -1000, |_| {});
    let mut idle: Vec<TcpStream> = (0..10)
        .map(|_| TcpStream::connect(at(&listener)).unwrap())
        .collect();
    for (k, peer) in idle.iter_mut().enumerate() {
        peer.write_all(&whole[..k * 20]).unwrap();
    }
    let begun = Instant::now();
    let mut sender = Sender::connect(&listener.address(), DType::I32, rate()).unwrap();
    for k in 0..10 {
        sender.send(&ramp(k * 1000, 1000), None).unwrap();
        for (at, peer) in idle.iter_mut().enumerate().skip(1) {
            let byte = at * 20 + k as usize;
            peer.write_all(&whole[byte..=byte]).unwrap();
        }
        sleep(Duration::from_millis(20));
    }
    sender.end().unwrap();
    assert_eq!(got.join().unwrap(), ramp(0, 10_000));
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "nobody waited for them"
    );
}

#[test]
fn a_peer_stalled_within_a_frame_yields_and_may_continue() {
    let listener = listen(TCP);
    let got = collecting(&listener);
    let mut slow = TcpStream::connect(at(&listener)).unwrap();
    let (one, two) = (frame(1, 0, 0, |_| {}), frame(1, 100, 10_100, |_| {}));
    slow.write_all(&one).unwrap();
    slow.write_all(&two[..200]).unwrap();
    sleep(Duration::from_millis(100));
    let mut other = TcpStream::connect(at(&listener)).unwrap();
    other.write_all(&frame(2, 0, 100, |_| {})).unwrap();
    drop(other);
    // Read after five seconds of silence.
    while listener.counts().samples < 200 {
        assert!(!got.is_finished());
        sleep(Duration::from_millis(20));
    }
    slow.write_all(&two[200..]).unwrap();
    slow.write_all(&frame(1, 200, 0, |header| header.end = true))
        .unwrap();
    let expected = [ramp(0, 200), ramp(10_100, 100)].concat();
    assert_eq!(got.join().unwrap(), expected);
    assert_eq!(listener.counts().malformed_frames, 0);
}

#[test]
fn excess_peers_are_refused_and_the_sender_is_not() {
    let listener = listen(TCP);
    let got = collecting(&listener);
    let mut sender = Sender::connect(&listener.address(), DType::I32, rate()).unwrap();
    sender.send(&ramp(0, 1000), None).unwrap();
    while listener.counts().samples < 1000 {
        sleep(Duration::from_millis(5));
    }
    let mut peers: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(at(&listener)).unwrap())
        .collect();
    while listener.counts().foreign < 100 {
        sleep(Duration::from_millis(5));
    }
    peers[0]
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    assert!(matches!(peers[0].read(&mut [0; 8]), Ok(0) | Err(_)));
    sender.send(&ramp(1000, 1000), None).unwrap();
    sender.end().unwrap();
    assert_eq!(got.join().unwrap(), ramp(0, 2000));
}

#[test]
fn a_datagram_with_a_far_counter_or_stamp_or_end_is_malformed_and_changes_nothing() {
    let listener = listen(UDP);
    let got = collecting(&listener);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |bytes: &[u8]| assert!(socket.send_to(bytes, at(&listener)).is_ok());
    let stamp = |first: u64| Fixed::from_int(1_700_000_000_000_000_000 + first as i64 * 100_000);
    for k in 0..50u64 {
        send(&frame(9, k * 100, 100 * k as i32, |header| {
            header.time = Some(stamp(k * 100))
        }));
        match k {
            10 => send(&frame(9, 1 << 61, -1, |header| {
                header.time = Some(stamp(k * 100))
            })),
            20 => send(&frame(9, (k + 1) * 100, -1, |header| {
                header.time = Some(Fixed::from_int(i64::MAX));
            })),
            30 => send(&frame(9, 1 << 50, -1, |header| header.end = true)),
            40 => send(&frame(9, 0, -1, |header| header.end = true)),
            _ => {}
        }
        sleep(Duration::from_millis(2));
    }
    send(&frame(9, 5000, 0, |header| header.end = true));
    assert_eq!(got.join().unwrap(), ramp(0, 5000));
    let counts = listener.counts();
    assert_eq!(
        (counts.malformed_frames, counts.clock_steps),
        (4, 0),
        "{counts:?}"
    );
    assert_eq!(counts.lost_samples, 0);
}

#[test]
fn a_confirmed_counter_jump_loses_nothing() {
    let mut options = ListenOptions::new(DType::I32, rate());
    options.silence = Some(Duration::from_millis(1500));
    options.framing = "<u4".parse().unwrap();
    let listener = Listener::bind(&UDP.parse().unwrap(), &options).unwrap();
    let got = collecting(&listener);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut expected = Vec::new();
    for (k, count) in (0..30u32).chain(1_000_000..1_000_030).enumerate() {
        let mut datagram = count.to_le_bytes().to_vec();
        let samples = ramp(10 * k as i32, 10);
        datagram.extend(samples.iter().flat_map(|value| value.to_le_bytes()));
        socket.send_to(&datagram, at(&listener)).unwrap();
        expected.extend(samples);
        if k == 20 {
            let mut stray = 3_000_000u32.to_le_bytes().to_vec();
            stray.extend([0; 40]);
            socket.send_to(&stray, at(&listener)).unwrap();
        }
        sleep(Duration::from_millis(2));
    }
    assert_eq!(got.join().unwrap(), expected);
    let counts = listener.counts();
    assert_eq!(
        (counts.malformed_frames, counts.lost_samples),
        (1, 10 * (1_000_000 - 30))
    );
}

#[test]
fn a_sender_that_stops_early_is_counted_as_truncated() {
    for (early, told) in [(true, 1), (false, 0)] {
        let listener = listen(UDP);
        let got = collecting(&listener);
        let mut sender = Sender::connect(&listener.address(), DType::I32, rate()).unwrap();
        sender.send(&ramp(0, 1000), None).unwrap();
        if early {
            sender.stop().unwrap();
        } else {
            sender.end().unwrap();
        }
        assert_eq!(got.join().unwrap(), ramp(0, 1000));
        assert_eq!(listener.counts().truncated_feeds, told);
    }
}

#[test]
fn feeds_have_timebases_of_their_own_unless_a_clock_is_stated() {
    let (one, two) = (listen(UDP), listen(UDP));
    let scan = |listener: &Listener| Plan::scan_shared(SharedRecording::new(listener.clone()));
    assert!(scan(&one).zip(&[scan(&two)]).is_err());
    let mut options = ListenOptions::new(DType::I32, rate());
    options.clock = Some(one.sampling_clock());
    let beside = Listener::bind(&UDP.parse().unwrap(), &options).unwrap();
    assert!(scan(&one).zip(&[scan(&beside)]).is_ok());
    options.rate = Rate::from_hz(5).unwrap();
    let refused = Listener::bind(&UDP.parse().unwrap(), &options).unwrap_err();
    assert_eq!(refused.code(), "live_option");
}
