//! Restarted senders and devices, replaced connections, and drivers.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use isochrony_flow::{Cause, Plan, Recording, SharedRecording};
use isochrony_live::send::Sender;
use isochrony_live::{Address, Driver, ListenOptions, Listener, PushPosition, Pusher};
use isochrony_segment::{ByteOrder, DType};
use isochrony_time::Rate;

fn rate() -> Rate {
    Rate::from_hz(1000).unwrap()
}

fn options(silence: u64) -> ListenOptions {
    let mut options = ListenOptions::new(DType::I32, rate());
    options.silence = Some(Duration::from_millis(silence));
    options
}

fn collecting(listener: &Listener) -> JoinHandle<Vec<i32>> {
    let plan = Plan::scan_shared(SharedRecording::new(listener.clone()));
    spawn(move || {
        let gathered = plan.collect().unwrap();
        gathered.array().unwrap().to_vec().unwrap()
    })
}

fn at(listener: &Listener) -> SocketAddr {
    match listener.address() {
        Address::Udp(at) | Address::Tcp(at) => at,
        other => panic!("{other}"),
    }
}

#[test]
fn a_device_that_restarts_its_count_begins_a_run() {
    let mut options = options(3000);
    options.framing = ">u4".parse().unwrap();
    options.order = ByteOrder::Big;
    let listener = Listener::bind(&"udp://127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let got = collecting(&listener);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |count: u32, value: i32| {
        let mut datagram = count.to_be_bytes().to_vec();
        for k in 0..10 {
            datagram.extend((value + k).to_be_bytes());
        }
        socket.send_to(&datagram, at(&listener)).unwrap();
        sleep(Duration::from_millis(1));
    };
    for k in 0..50 {
        send(1_000_000 + k, 10 * k as i32);
    }
    // Datagrams before the first are waited for.
    while listener.counts().samples < 500 {
        assert!(!got.is_finished(), "{:?}", listener.counts());
        sleep(Duration::from_millis(1));
    }
    for k in 0..50 {
        send(k, 5000 + 10 * k as i32);
    }
    let got = got.join().unwrap();
    let counts = listener.counts();
    // Eight in a row confirm a restart.
    assert_eq!((counts.clock_steps, counts.late_frames), (1, 0));
    assert_eq!((counts.malformed_frames, counts.lost_samples), (0, 0));
    let expected: Vec<i32> = (0..500).chain(5000..5500).collect();
    assert_eq!(got, expected);
}

#[test]
fn an_unstamped_sender_after_a_stamped_one_has_arrival_times() {
    let listener = Listener::bind(&"tcp://127.0.0.1:0".parse().unwrap(), &options(20_000)).unwrap();
    let got = collecting(&listener);
    const OLD_TIME: i64 = 1_000_000_000_000_000_000;
    let mut stamped = Sender::connect(&listener.address(), DType::I32, rate()).unwrap();
    stamped.send(&[1i32; 100], Some(OLD_TIME)).unwrap();
    drop(stamped);
    sleep(Duration::from_millis(200));
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut unstamped = Sender::connect(&listener.address(), DType::I32, rate()).unwrap();
    unstamped.send(&[2i32; 100], None).unwrap();
    unstamped.end().unwrap();
    assert_eq!(got.join().unwrap(), [[1i32; 100], [2; 100]].concat());
    assert_eq!(listener.counts().clock_steps, 1);
    let clock = listener.clock().unwrap();
    let ns = |index| clock.stamp(index).unwrap().civil.floor_i64().unwrap();
    assert!((ns(0) - OLD_TIME).abs() < 1_000_000);
    let late = ns(150) - before.as_nanos() as i64;
    assert!((0..5_000_000_000).contains(&late), "{late} ns");
}

#[test]
fn a_partial_sample_is_dropped_and_counted_when_a_connection_is_replaced() {
    let mut options = options(20_000);
    options.framing = "raw".parse().unwrap();
    let listener = Listener::bind(&"tcp://127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let got = collecting(&listener);
    let bytes = |values: [i32; 3]| values.map(i32::to_le_bytes).concat();
    let mut silent = TcpStream::connect(at(&listener)).unwrap();
    silent.write_all(&bytes([1, 2, 3])).unwrap();
    silent.write_all(&[9, 9]).unwrap();
    sleep(Duration::from_millis(5300));
    let mut other = TcpStream::connect(at(&listener)).unwrap();
    other.write_all(&bytes([4, 5, 6])).unwrap();
    drop(other);
    assert_eq!(got.join().unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(listener.counts().malformed_frames, 1);
    drop(silent);
}

#[derive(Debug)]
struct PushOnBegin {
    what: Vec<(PushPosition, Vec<i32>)>,
    wait: bool,
    taken: Mutex<Vec<bool>>,
    stopped: Mutex<u32>,
}

#[derive(Debug, Clone)]
struct PushDriver(Arc<PushOnBegin>);

impl Driver for PushDriver {
    fn begin(&self, to: Pusher) -> Result<(), Cause> {
        let pushes = self.0.clone();
        if pushes.what.is_empty() {
            return Err("there is no such device".into());
        }
        spawn(move || {
            for (at, samples) in &pushes.what {
                let bytes = bytemuck::cast_slice(samples);
                let taken = if pushes.wait {
                    to.push(bytes, *at)
                } else {
                    to.try_push(bytes, *at)
                };
                pushes.taken.lock().unwrap().push(taken);
            }
            to.end();
        });
        Ok(())
    }

    fn stop(&self) {
        *self.0.stopped.lock().unwrap() += 1;
    }
}

fn driven(
    what: Vec<(PushPosition, Vec<i32>)>,
    wait: bool,
    options: &ListenOptions,
) -> (Listener, PushDriver) {
    let pushes = PushDriver(Arc::new(PushOnBegin {
        what,
        wait,
        taken: Mutex::default(),
        stopped: Mutex::default(),
    }));
    (Listener::driven(pushes.clone(), options).unwrap(), pushes)
}

fn first(first: u64) -> PushPosition {
    PushPosition {
        first,
        ..PushPosition::default()
    }
}

#[test]
fn pushed_samples_are_ordered_and_omitted_indices_are_gaps() {
    let ramp = |from: i32| (from..from + 100).collect::<Vec<_>>();
    let what = vec![
        (first(1000), ramp(0)),
        (first(1200), ramp(200)),
        (first(1100), ramp(100)),
        (first(1100), ramp(100)),
        (first(1400), ramp(400)),
        (
            PushPosition {
                session: 1,
                ..first(7)
            },
            ramp(500),
        ),
    ];
    let (listener, pushes) = driven(what, true, &options(5000));
    let got = collecting(&listener).join().unwrap();
    let expected: Vec<i32> = (0..300).chain(400..600).collect();
    assert_eq!(got, expected);
    let counts = listener.counts();
    assert_eq!(counts.reordered_frames, 1);
    // Depends on the run's progress.
    assert_eq!(counts.duplicate_frames + counts.late_frames, 1);
    assert_eq!((counts.lost_samples, counts.clock_steps), (100, 1));
    assert_eq!(*pushes.0.stopped.lock().unwrap(), 1);
    assert_eq!(collecting(&listener).join().unwrap(), expected);
}

#[test]
fn a_driver_that_must_not_wait_drops_and_counts_excess_samples() {
    let what = (0..1000u64).map(|k| (first(k * 100), vec![k as i32; 100]));
    let mut options = options(5000);
    options.buffer = 2000;
    let (listener, pushes) = driven(what.collect(), false, &options);
    let got = collecting(&listener).join().unwrap();
    let counts = listener.counts();
    let refused = pushes
        .0
        .taken
        .lock()
        .unwrap()
        .iter()
        .filter(|taken| !**taken)
        .count() as u64;
    assert_eq!(counts.overrun_frames, refused);
    assert_eq!(got.len() as u64 + 100 * refused, 100_000);
    assert!(got.windows(2).all(|pair| pair[0] <= pair[1]));
}

#[test]
fn a_driver_that_cannot_begin_ends_the_run_with_its_reason() {
    let (listener, pushes) = driven(Vec::new(), true, &options(100));
    let failed = Plan::scan_shared(SharedRecording::new(listener))
        .collect()
        .unwrap_err();
    assert!(failed.to_string().contains("no such device"), "{failed}");
    assert_eq!(*pushes.0.stopped.lock().unwrap(), 0);
}
