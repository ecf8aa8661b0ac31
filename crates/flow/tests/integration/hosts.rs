//! Random plans partly on another host have the bits of one thread, though connections break and slots are lost.

#![allow(clippy::single_range_in_vec_init)]

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use isochrony_flow::{
    Cause, CauseCodec, HostRequest, HostRun, Plan, PlanError, RemoteSlot, RunError, RunOptions,
    RunnerContext, TaskCluster,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::common::fail::failing;
use crate::common::loopback::{Loopback, TextCauses, sent};
use crate::common::noise::recording;
use crate::common::plans::{named, plans, steps};

const CASES: u32 = 300;
const SHORT: Duration = Duration::from_millis(2);

#[derive(Debug)]
struct HostThread {
    part: Plan,
    options: RunOptions<'static>,
    /// A connection breaks after so many messages, with those in flight; 0: never.
    broken_after: u64,
    stopped: Arc<AtomicBool>,
    messages: Arc<AtomicU64>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    slots: Option<Loopback>,
}

impl HostThread {
    fn new(part: &Plan, options: RunOptions<'static>, broken_after: u64) -> Self {
        Self {
            part: part.clone(),
            options,
            broken_after,
            stopped: Arc::default(),
            messages: Arc::default(),
            threads: Mutex::default(),
            slots: None,
        }
    }

    /// Of the rest of the plans; one call in `lost_one_in` loses its slot.
    fn with_slots(mut self, plans: &[Plan], slots: usize, lost_one_in: u64) -> Self {
        let mut options = self.options;
        options.workers = 2;
        self.slots = Some(Loopback::new(
            &[(sent(plans), None)],
            None,
            options,
            slots,
            lost_one_in,
        ));
        self
    }

    fn run(&self, plans: &[Plan]) -> Result<Vec<isochrony_flow::PlanOutput>, RunError> {
        let mut options: RunOptions<'_> = self.options;
        options.cluster = Some(self);
        let ran = Plan::collect_all(plans, &options).map(|(outputs, _)| outputs);
        self.stop();
        for thread in self.threads.lock().unwrap().drain(..) {
            thread.join().unwrap();
        }
        ran
    }
}

impl TaskCluster for HostThread {
    fn next_slot(
        &self,
        wait: Duration,
        is_needed: bool,
    ) -> Result<Option<Box<dyn RemoteSlot>>, Cause> {
        match &self.slots {
            Some(slots) => slots.next_slot(wait, is_needed),
            None => {
                std::thread::sleep(wait.min(SHORT));
                Ok(None)
            }
        }
    }

    fn slots(&self) -> usize {
        self.slots.as_ref().map_or(0, TaskCluster::slots)
    }

    fn stop(&self) {
        if let Some(slots) = &self.slots {
            slots.stop();
        }
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn open_host(&self, request: HostRequest) -> Result<(), Cause> {
        let context = RunnerContext {
            shared: None,
            check: None,
            cache: None,
            causes: Arc::new(TextCauses),
        };
        let run = HostRun::new(&self.part, 1, self.options, context)?;
        let (inbox, broken_after) = (request.inbox, self.broken_after);
        let (stopped, messages) = (Arc::clone(&self.stopped), Arc::clone(&self.messages));
        let work = move || {
            let buffer = run.buffer();
            let (mut sent, mut read, mut on_their_way) = (0, 0, 0);
            while !stopped.load(Ordering::Relaxed) && !inbox.is_done() {
                if let Some((number, message)) = buffer.next(sent, inbox.window(), SHORT) {
                    sent = number;
                    on_their_way += 1;
                    if broken_after > 0 && on_their_way > broken_after {
                        on_their_way = 0;
                        sent = inbox.arrived().saturating_sub(1).max(read);
                        continue;
                    }
                    messages.fetch_add(1, Ordering::Relaxed);
                    inbox.push(number, &message, &TextCauses).unwrap();
                }
                if let Some(now) = inbox.read_after(read, Duration::ZERO) {
                    read = now;
                    sent = sent.max(read);
                    assert!(buffer.acknowledge(read));
                }
            }
        };
        self.threads.lock().unwrap().push(std::thread::spawn(work));
        Ok(())
    }

    fn causes(&self) -> &dyn CauseCodec {
        &TextCauses
    }
}

fn options() -> RunOptions<'static> {
    let mut options = RunOptions::default();
    options.stages.link_bytes = 2048;
    options.stages.burst_bytes = 512;
    options.stages.block_bytes = 512;
    options
}

fn on(plan: &Plan) -> Result<Plan, PlanError> {
    named(plan, &("on", json!({"host": "buoy"})))
}

#[test]
fn random_plans_have_the_bits_of_one_thread() {
    let given = (
        (steps(), steps()),
        (0i64..60, 1i64..500),
        (1i64..200, 1u64..300),
        (0u64..6, 1usize..3),
        (0usize..4, 0u64..6),
    );
    let (messages, calls) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(
        &given,
        |((before, behind), (gap, len), (cut, segment), (broken, workers), (slots, lost))| {
            let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
            let scan = Plan::scan_part(recording(&stretches, cut), None, segment);
            let parts = plans(scan, &before);
            let part = &parts[parts.len() - 1];
            let Ok(moved) = on(part) else {
                return Ok(());
            };
            let all = plans(part.clone(), &behind);
            let moved = plans(moved, &behind);
            let some = |all: &[Plan]| [all[all.len() - 1].clone(), all[all.len() / 2].clone()];
            let mut options = options();
            let (one, _) = Plan::collect_all(&some(&all), &options).unwrap();
            options.workers = workers;
            let mut host = HostThread::new(part, options, broken);
            if slots > 0 && workers > 1 {
                let lost = if lost == 1 { 0 } else { lost };
                host = host.with_slots(&some(&moved), slots, lost);
            }
            let many = host.run(&some(&moved)).unwrap();
            prop_assert_eq!(many, one, "{}", some(&moved)[0].explain());
            messages.set(messages.get() + host.messages.load(Ordering::Relaxed));
            calls.set(calls.get() + host.slots.as_ref().map_or(0, Loopback::calls));
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    assert!(messages.get() > u64::from(CASES), "{}", messages.get());
    assert!(calls.get() > u64::from(CASES) / 10, "{}", calls.get());
}

#[test]
fn errors_come_behind_what_was_computed_before_them() {
    for how in ["error", "panic"] {
        let scan = Plan::scan_part(recording(&[0..9000], 30), None, 30);
        let part = failing(&scan, &[7000], how);
        let moved = on(&part).unwrap();
        let mut options = options();
        for workers in [1, 2] {
            options.workers = workers;
            let error = HostThread::new(&part, options, 3)
                .run(std::slice::from_ref(&moved))
                .unwrap_err();
            let here = part.collect().unwrap_err();
            assert_eq!(error.code(), here.code());
            let text = error.to_string();
            assert!(
                text.contains("fail (node 1, samples 6990 to 7020)"),
                "{text}"
            );
            assert!(text.contains("buoy"), "{text}");
            assert!(text.contains("sample 7000 is"), "{text}");
            let limited = named(&moved, &("limit", json!({"count": 6000}))).unwrap();
            let host = HostThread::new(&part, options, 3);
            assert_eq!(
                host.run(&[limited]).unwrap()[0].array().unwrap().shape,
                [6000]
            );
        }
    }
}

#[test]
fn plans_that_cannot_be_moved_are_refused() {
    let scan = Plan::scan_part(recording(&[0..900], 30), None, 30);
    let refused =
        |plan: &Plan| match HostThread::new(&scan, options(), 0).run(std::slice::from_ref(plan)) {
            Err(RunError::Plan(error)) => error,
            other => panic!("{other:?}"),
        };
    let nested = on(&on(&scan).unwrap().rewindow(7).unwrap()).unwrap();
    assert!(matches!(refused(&nested), PlanError::HostWithinHost { .. }));
    let error = on(&scan).unwrap().collect().unwrap_err();
    assert_eq!(error.code(), "no_cluster");
}
