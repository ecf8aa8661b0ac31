//! Each rule with tables that violate it.

use isochrony_segment::DType;
use isochrony_time::Rate;

use super::*;
use crate::op::{Op, PieceRow, PointRow, RunReason, RunRow, SignalId};
use crate::options::CreateOptions;

const ID: SignalId = SignalId(1);
const S: i64 = 1_000_000_000;

fn sound() -> Vec<Op> {
    let run = |id, start, end| Op::Run {
        id: ID,
        run: RunRow {
            id,
            start,
            end,
            reason: RunReason::First,
        },
    };
    let point = |run, index, civil_ns| Op::Point {
        id: ID,
        point: PointRow {
            run,
            index,
            civil_ns,
            civil_frac: 0,
            resolution_ns: 1000,
            resolution_frac: 0,
            usage: 0,
        },
    };
    let piece = |index, end, civil_ns| PieceRow {
        index,
        end,
        civil_ns,
        civil_frac: 0,
        num: 10_000_000,
        den: 1,
        uncertainty_ps: 1000,
        residual_ps: 10,
    };
    vec![
        Op::Gap {
            id: ID,
            start: 100,
            end: 200,
        },
        Op::End { id: ID, end: 1000 },
        run(0, 0, 600),
        run(1, 600, 1000),
        point(0, 0, 50 * S),
        point(0, 599, 50 * S + 5_990_000_000),
        point(1, 700, 20 * S),
        Op::Fit {
            id: ID,
            run: 0,
            from: 0,
            pieces: vec![piece(0, 600, 50 * S)],
        },
        Op::Fit {
            id: ID,
            run: 1,
            from: 600,
            pieces: vec![piece(600, -1, 19 * S)],
        },
    ]
}

fn state(change: impl FnOnce(&mut Vec<Op>)) -> SignalState {
    let meta = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let mut state = SignalState::new(ID, "x", meta.meta("x").unwrap());
    let mut ops = sound();
    change(&mut ops);
    ops.iter().for_each(|op| state.apply(op));
    state
}

fn outcome(change: impl FnOnce(&mut Vec<Op>)) -> Result<(), (&'static str, usize)> {
    check(&state(change)).map_err(|error| match error {
        StoreError::DamagedTable { table, row, .. } => (table, row),
        other => panic!("{other}"),
    })
}

fn run_at(ops: &mut [Op], position: usize) -> &mut RunRow {
    match &mut ops[position] {
        Op::Run { run, .. } => run,
        _ => unreachable!(),
    }
}

fn piece_at(ops: &mut [Op], position: usize) -> &mut PieceRow {
    match &mut ops[position] {
        Op::Fit { pieces, .. } => &mut pieces[0],
        _ => unreachable!(),
    }
}

#[test]
fn accepts_what_appends_give_and_a_signal_without_runs() {
    assert_eq!(outcome(|_| ()), Ok(()));
    assert_eq!(outcome(|ops| ops.truncate(2)), Ok(()));
}

#[test]
fn refuses_gaps_and_runs_that_do_not_fit_the_end() {
    let longer = |ops: &mut Vec<Op>| {
        ops.push(Op::Gap {
            id: ID,
            start: 990,
            end: 1001,
        });
    };
    assert_eq!(outcome(longer), Err((GAPS, 1)));
    assert_eq!(outcome(|ops| run_at(ops, 3).end = 1001), Err((RUNS, 1)));
}

#[test]
fn refuses_runs_that_leave_samples_out_but_not_gaps() {
    assert_eq!(outcome(|ops| run_at(ops, 3).end = 999), Err((RUNS, 1)));
    assert_eq!(outcome(|ops| run_at(ops, 3).start = 601), Err((RUNS, 1)));
    let at_the_end = |ops: &mut Vec<Op>| {
        ops.push(Op::Gap {
            id: ID,
            start: 990,
            end: 1000,
        });
        run_at(ops, 3).end = 990;
    };
    assert_eq!(outcome(at_the_end), Ok(()));
}

#[test]
fn refuses_stamps_and_pieces_of_no_run_or_outside_theirs() {
    for (index, expected) in [(601, Err((POINTS, 1))), (-1, Err((POINTS, 0)))] {
        let moved = |ops: &mut Vec<Op>| match &mut ops[5] {
            Op::Point { point, .. } => point.index = index,
            _ => unreachable!(),
        };
        assert_eq!(outcome(moved), expected, "{index}");
    }
    let unknown = |ops: &mut Vec<Op>| match &mut ops[6] {
        Op::Point { point, .. } => point.run = 9,
        _ => unreachable!(),
    };
    assert_eq!(outcome(unknown), Err((POINTS, 2)));
    assert_eq!(outcome(|ops| piece_at(ops, 7).end = 601), Err((FIT, 0)));
    assert_eq!(outcome(|ops| piece_at(ops, 8).index = 599), Err((FIT, 1)));
    let other = |ops: &mut Vec<Op>| match &mut ops[8] {
        Op::Fit { run, .. } => *run = 7,
        _ => unreachable!(),
    };
    assert_eq!(outcome(other), Err((FIT, 1)));
}

#[test]
fn refuses_a_fit_far_beside_its_stamps() {
    let late = |ops: &mut Vec<Op>| piece_at(ops, 7).civil_ns += 50 * S;
    assert_eq!(outcome(late), Err((FIT, 0)));
    let fast = |ops: &mut Vec<Op>| piece_at(ops, 7).num = 12_000_000;
    assert_eq!(outcome(fast), Err((FIT, 0)));
    let slightly = |ops: &mut Vec<Op>| piece_at(ops, 7).civil_ns += 20_000_000;
    assert_eq!(outcome(slightly), Ok(()));
}

#[test]
fn accepts_a_last_stamp_outside_the_fit_that_verification_reports() {
    let late = |ops: &mut Vec<Op>| match &mut ops[5] {
        Op::Point { point, .. } => point.civil_ns += 50 * S,
        _ => unreachable!(),
    };
    assert_eq!(outcome(late), Ok(()));
    assert_eq!(examined(late), Some((FIT, 0..600)));
    // A residual that includes the stamp: 50 s among two.
    let stated = |ops: &mut Vec<Op>| {
        late(ops);
        piece_at(ops, 7).residual_ps = 36 * 1_000_000_000_000;
    };
    assert_eq!(examined(stated), None);
}

fn examined(change: impl FnOnce(&mut Vec<Op>)) -> Option<(&'static str, Range<i64>)> {
    let state = state(change);
    check(&state).unwrap();
    contradiction(&state).map(|found| (found.table, found.range))
}

#[test]
fn verification_compares_every_stamp_with_the_fit() {
    assert_eq!(examined(|_| ()), None);
    let between = |ops: &mut Vec<Op>| {
        let Op::Point { id, point } = ops[5].clone() else {
            unreachable!()
        };
        let point = PointRow {
            index: 300,
            civil_ns: 52 * S,
            ..point
        };
        ops.insert(6, Op::Point { id, point });
    };
    assert_eq!(examined(between), Some((FIT, 0..600)));
}

#[test]
fn verification_finds_samples_of_a_signal_without_runs() {
    assert_eq!(examined(|ops| ops.truncate(2)), Some((RUNS, 0..1000)));
    let without_samples = |ops: &mut Vec<Op>| {
        ops.clear();
    };
    assert_eq!(examined(without_samples), None);
}
