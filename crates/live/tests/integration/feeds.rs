//! Feeds over real sockets: received against sent samples.

use std::net::UdpSocket;
use std::time::Duration;

use isochrony_flow::{Array, Plan, SharedRecording};
use isochrony_live::frame::FrameHeader;
use isochrony_live::send::{NetworkFaults, SendCounts, Sender};
use isochrony_live::{Address, ListenOptions, Listener};
use isochrony_segment::{ByteOrder, DType};
use isochrony_time::Rate;

const UDP: &str = "udp://127.0.0.1:0";
const TCP: &str = "tcp://127.0.0.1:0";

fn rate() -> Rate {
    Rate::from_hz(100_000).unwrap()
}

fn options() -> ListenOptions {
    let mut options = ListenOptions::new(DType::I32, rate());
    options.silence = Some(Duration::from_secs(20));
    options
}

fn bind(at: &str, options: &ListenOptions) -> Listener {
    Listener::bind(&at.parse().unwrap(), options).unwrap()
}

fn scan(listener: &Listener) -> Plan {
    Plan::scan_shared(SharedRecording::new(listener.clone()))
}

fn ramp(from: i32, count: i32) -> Vec<i32> {
    (from..from + count).collect()
}

fn sender(to: Address, frame: usize, faults: NetworkFaults) -> Sender {
    let sender = Sender::connect(&to, DType::I32, rate()).unwrap();
    sender
        .with_frame_samples(frame)
        .unwrap()
        .with_faults(faults)
        .unwrap()
}

fn send_ramp(
    to: Address,
    count: i32,
    faults: NetworkFaults,
) -> std::thread::JoinHandle<SendCounts> {
    std::thread::spawn(move || {
        let mut sender = sender(to, 100, faults);
        for from in (0..count).step_by(1000) {
            sender.send(&ramp(from, 1000), None).unwrap();
            std::thread::sleep(Duration::from_micros(500));
        }
        sender.end().unwrap()
    })
}

fn slow(_: &isochrony_flow::Item) -> Result<(), isochrony_flow::Cause> {
    std::thread::sleep(Duration::from_millis(20));
    Ok(())
}

fn collected(plan: &Plan) -> Array {
    plan.collect().unwrap().array().unwrap().clone()
}

#[test]
fn samples_arrive_over_datagrams_and_connections() {
    for at in [UDP, TCP] {
        let listener = bind(at, &options());
        let sent = send_ramp(listener.address(), 200_000, NetworkFaults::default());
        let got = collected(&scan(&listener));
        assert_eq!(got.to_vec::<i32>().unwrap(), ramp(0, 200_000), "{at}");
        let (sent, counts) = (sent.join().unwrap(), listener.counts());
        assert_eq!((sent.samples, counts.samples), (200_000, 200_000));
        assert_eq!((counts.lost_samples, counts.malformed_frames), (0, 0));
        assert!(listener.latency().count > 0);
    }
}

#[test]
fn losses_are_gaps_late_frames_are_reordered_and_duplicates_dropped() {
    let faults = NetworkFaults {
        loss: 0.02,
        twice: 0.02,
        jitter: Duration::from_millis(3),
        seed: 7,
    };
    let listener = bind(UDP, &options());
    let sent = send_ramp(listener.address(), 300_000, faults);
    // Windows never span a gap.
    let plan = scan(&listener).rewindow(50).unwrap();
    let got = collected(&plan).to_vec::<i32>().unwrap();
    let (sent, counts) = (sent.join().unwrap(), listener.counts());
    assert!(sent.dropped_samples > 0 && sent.doubled_frames > 0 && counts.reordered_frames > 0);
    // Drops at either end are not counted as lost.
    let missing = sent.dropped_samples - counts.lost_samples;
    assert!(
        missing <= 300 && counts.late_frames == 0,
        "{sent:?} {counts:?}"
    );
    assert_eq!(counts.samples + sent.dropped_samples, 300_000);
    for window in got.chunks_exact(50) {
        assert!(window.windows(2).all(|pair| pair[1] == pair[0] + 1));
    }
    assert!(got.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(
        got.len() as u64,
        counts.samples,
        "windows of 50 in frames of 100 leave nothing out"
    );
}

#[test]
fn a_slow_plan_loses_counted_datagrams_and_slows_connections() {
    for (at, loses) in [(UDP, true), (TCP, false)] {
        let mut options = options();
        options.buffer = 64 << 10;
        let listener = bind(at, &options);
        let to = listener.address();
        let sending = std::thread::spawn(move || {
            let mut sender = sender(to, 100, NetworkFaults::default());
            for from in (0..200_000).step_by(1000) {
                sender.send(&ramp(from, 1000), None).unwrap();
                std::thread::sleep(Duration::from_micros(100));
            }
            // The kernel's own buffer may still be full.
            std::thread::sleep(Duration::from_millis(300));
            sender.end().unwrap()
        });
        let plan = Plan::scan_part(SharedRecording::new(listener.clone()), None, 4000);
        let plan = plan.each(slow).unwrap().count().unwrap();
        let got = plan.collect().unwrap().count().unwrap();
        sending.join().unwrap();
        let counts = listener.counts();
        assert_eq!(got, counts.samples, "{at}");
        assert_eq!(
            counts.samples + counts.lost_samples,
            200_000,
            "{at} {counts:?}"
        );
        assert_eq!(counts.overrun_frames > 0, loses, "{at} {counts:?}");
    }
}

#[test]
fn a_restarted_sender_begins_a_run() {
    let listener = bind(TCP, &options());
    let to = listener.address();
    let sending = std::thread::spawn(move || {
        let mut first = sender(to, 100, NetworkFaults::default());
        first.send(&ramp(0, 1000), None).unwrap();
        drop(first);
        std::thread::sleep(Duration::from_millis(100));
        let mut second = sender(to, 100, NetworkFaults::default());
        second.send(&ramp(5000, 1000), None).unwrap();
        second.end().unwrap()
    });
    let got = collected(&scan(&listener).rewindow(300).unwrap())
        .to_vec::<i32>()
        .unwrap();
    sending.join().unwrap();
    assert_eq!(got, [ramp(0, 900), ramp(5000, 900)].concat());
    assert_eq!(listener.counts().clock_steps, 1);
}

#[test]
fn foreign_and_invalid_frames_are_counted_and_change_nothing() {
    let listener = bind(UDP, &options());
    let to = listener.address();
    let Address::Udp(port) = to else { panic!() };
    let sending = std::thread::spawn(move || {
        let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut ours = sender(to, 100, NetworkFaults::default());
        let mut other = sender(to, 100, NetworkFaults::default());
        for from in (0..10_000).step_by(1000) {
            ours.send(&ramp(from, 1000), None).unwrap();
            other.send(&ramp(-1000, 100), None).unwrap();
            noise.send_to(b"\0\x01hello", port).unwrap();
            noise.send_to(&[0x49; 2000], port).unwrap();
            let mut frame = Vec::new();
            let header = FrameHeader {
                end: true,
                ..FrameHeader::new(DType::F64, 9, 0)
            };
            header.write(&[0; 8], &mut frame);
            noise.send_to(&frame, port).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        ours.end().unwrap()
    });
    let got = collected(&scan(&listener)).to_vec::<i32>().unwrap();
    sending.join().unwrap();
    assert_eq!(got, ramp(0, 10_000));
    let counts = listener.counts();
    assert_eq!((counts.foreign, counts.malformed_frames), (10, 30));
}

#[test]
fn counted_datagrams_of_other_devices_are_read() {
    let mut options = options();
    (options.dtype, options.order) = (DType::I16, ByteOrder::Big);
    options.framing = ">u2".parse().unwrap();
    options.silence = Some(Duration::from_millis(300));
    let listener = bind(UDP, &options);
    let Address::Udp(port) = listener.address() else {
        panic!()
    };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // The counter wraps; one is missing, two are swapped.
    for count in [65_534u16, 65_535, 1, 0, 3] {
        let mut datagram = count.to_be_bytes().to_vec();
        datagram.extend([7i16, -300].into_iter().flat_map(i16::to_be_bytes));
        socket.send_to(&datagram, port).unwrap();
    }
    let got = collected(&scan(&listener)).to_vec::<i16>().unwrap();
    assert_eq!(got, [7, -300].repeat(5));
    let counts = listener.counts();
    assert_eq!((counts.lost_samples, counts.reordered_frames), (2, 1));
}

#[test]
fn refuses_invalid_feeds_and_second_scans() {
    let code = |at: &str, change: &dyn Fn(&mut ListenOptions)| {
        let mut options = options();
        change(&mut options);
        Listener::bind(&at.parse().unwrap(), &options)
            .unwrap_err()
            .code()
    };
    assert_eq!(code("udp://0.0.0.0:0", &|_| {}), "live_exposed");
    assert_eq!(
        code(TCP, &|options| options.framing = "<u4".parse().unwrap()),
        "live_option"
    );
    assert_eq!(code(UDP, &|options| options.buffer = 0), "live_option");
    assert_eq!(code(UDP, &|options| options.max_frame = 3), "live_option");
    let taken = bind(TCP, &options());
    let again = Listener::bind(&taken.address(), &options()).unwrap_err();
    assert_eq!(again.code(), "live_socket");
    let mut anyone = options();
    anyone.anyone = true;
    assert!(Listener::bind(&"udp://0.0.0.0:0".parse().unwrap(), &anyone).is_ok());

    let listener = bind(UDP, &options());
    let both = scan(&listener).zip(&[scan(&listener).passthrough().unwrap()]);
    drop(both);
    let range = Plan::scan_part(SharedRecording::new(listener.clone()), Some(5..10), 100);
    assert!(range.collect().unwrap_err().to_string().contains("feed"));
}

#[test]
fn a_silent_feed_ends_on_request() {
    let mut options = options();
    options.silence = Some(Duration::from_millis(100));
    for at in [UDP, TCP] {
        let listener = bind(at, &options);
        assert_eq!(
            scan(&listener).count().unwrap().collect().unwrap().count(),
            Some(0)
        );
        // It is free again.
        assert_eq!(
            scan(&listener).count().unwrap().collect().unwrap().count(),
            Some(0)
        );
    }
}

#[test]
fn a_flood_of_invalid_packets_does_not_block_a_stop() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    let listener = bind(UDP, &options());
    let Address::Udp(port) = listener.address() else {
        panic!()
    };
    let stop = isochrony_flow::Interrupt::default();
    let flooding = Arc::new(AtomicBool::new(true));
    let on = flooding.clone();
    let flood = std::thread::spawn(move || {
        let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
        while on.load(Ordering::Relaxed) {
            let _ = noise.send_to(&[7; 100], port);
        }
    });
    let stopping = stop.clone();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        stopping.request();
        std::time::Instant::now()
    });
    let mut options = isochrony_flow::RunOptions::default();
    options.interrupt = Some(&stop);
    assert!(
        scan(&listener)
            .count()
            .unwrap()
            .collect_with(&options)
            .is_err()
    );
    let late = stopper.join().unwrap().elapsed();
    flooding.store(false, Ordering::Relaxed);
    flood.join().unwrap();
    assert!(late < Duration::from_millis(500), "{late:?}");
    assert!(listener.counts().malformed_frames > 1000);
}

/// Rows wait in batches, but not in a silence.
#[test]
fn waiting_rows_are_processed_in_a_silence() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    let params = serde_json::Map::new;
    for kind in ["stats", "trim_peak"] {
        let listener = bind(TCP, &options());
        let to = listener.address();
        let seen = Arc::new(AtomicBool::new(false));
        let (sees, saw) = (seen.clone(), seen.clone());
        let sending = std::thread::spawn(move || {
            let mut sender = sender(to, 100, NetworkFaults::default());
            sender.send(&ramp(0, 1000), None).unwrap();
            let begun = std::time::Instant::now();
            while !saw.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let in_time = saw.load(Ordering::Relaxed);
            sender.end().unwrap();
            in_time
        });
        let windows = scan(&listener).rewindow(100).unwrap();
        let rows = match kind {
            "stats" => windows.stats([isochrony_flow::Stat::Mean]).unwrap(),
            _ => windows
                .then::<isochrony_flow::operators::TrimPeak>(params())
                .unwrap(),
        };
        let look = move |_: &isochrony_flow::Item| {
            sees.store(true, Ordering::Relaxed);
            Ok(())
        };
        rows.each(look).unwrap().run().unwrap();
        assert!(sending.join().unwrap(), "{kind}");
    }
}
