//! State against maps, and through tables and back. Replaying operations over any mixture of older and newer tables
//! gives the last state, as recovery requires.

use std::collections::BTreeMap;

use isochrony_segment::DType;
use isochrony_time::Rate;
use proptest::prelude::*;

use super::*;
use crate::error::StoreError;
use crate::meta::ClockSettings;
use crate::op::{
    CorrectionPointRow, CorrectionRow, EventRow, PieceRow, PointRow, RunReason, RunRow,
};

const ID: SignalId = SignalId(7);

fn meta() -> SignalMeta {
    SignalMeta {
        format: DType::I16.into(),
        rate: Rate::from_hz(100).unwrap(),
        unit: "kPa".into(),
        calibration: Some((0.5, 1.0)),
        chunk_samples: 32_768,
        shard_chunks: 256,
        codec: String::new(),
        clock: ClockSettings {
            alpha: 0.98,
            gap_slip_ns: None,
            max_gap_ns: 1,
            initial_rate: None,
        },
        attributes: "{}".into(),
    }
}

fn piece(index: i64, end: i64, num: u64) -> PieceRow {
    PieceRow {
        index,
        end,
        civil_ns: index * 7,
        civil_frac: 5,
        num,
        den: 3,
        uncertainty_ps: 1,
        residual_ps: 2,
    }
}

/// As from a writer: the axis and the runs grow.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    let one = (
        0u8..10,
        0i64..400,
        1i64..60,
        0u32..6,
        1u64..9,
        "[a-z\"\\\\é]{0,6}",
    );
    proptest::collection::vec(one, 0..80).prop_map(|steps| {
        let (mut end, mut runs) = (0i64, 0u32);
        let mut ops = Vec::new();
        for (kind, at, length, small, num, text) in steps {
            let start = if end == 0 { 0 } else { at % end };
            let stop = (start + length).min(end);
            match kind {
                0 | 1 => {
                    let from = end;
                    end += length;
                    if runs == 0 || kind == 1 {
                        runs += 1;
                    }
                    let first = ops.iter().rev().find_map(|op| match op {
                        Op::Run { run, .. } if run.id == runs - 1 => Some(run.start),
                        _ => None,
                    });
                    let reason = RunReason::Late;
                    let run = RunRow {
                        id: runs - 1,
                        start: first.unwrap_or(from),
                        end,
                        reason,
                    };
                    ops.push(Op::Valid {
                        id: ID,
                        start: from,
                        end,
                    });
                    ops.push(Op::End { id: ID, end });
                    ops.push(Op::Run { id: ID, run });
                }
                2 | 3 if start < stop => ops.push(Op::Gap {
                    id: ID,
                    start,
                    end: stop,
                }),
                4 if start < stop => ops.push(Op::Valid {
                    id: ID,
                    start,
                    end: stop,
                }),
                5 => ops.push(Op::Point {
                    id: ID,
                    point: PointRow {
                        run: small,
                        index: at,
                        civil_ns: at * length,
                        civil_frac: 9,
                        resolution_ns: length,
                        resolution_frac: 0,
                        usage: (num % 4) as u8,
                    },
                }),
                6 => ops.push(Op::Fit {
                    id: ID,
                    run: small,
                    from: at,
                    pieces: (0..num as i64 % 4)
                        .map(|k| piece(at + k * length, at + (k + 1) * length, num))
                        .collect(),
                }),
                7 => ops.push(Op::Event {
                    id: ID,
                    event: EventRow {
                        id: u64::from(small) + num,
                        start: at,
                        end: at + length,
                        kind: text.clone(),
                        fields: serde_json::json!({ "note": text }).to_string(),
                    },
                }),
                8 => ops.push(Op::Correction {
                    id: ID,
                    correction: Box::new(CorrectionRow {
                        id: small,
                        run: (num % 2 == 0).then_some(small),
                        is_removed: num % 3 == 0,
                        method: 1,
                        shape: (num % 3) as u8,
                        wander_ppt: num,
                        to: (num % 4 == 0).then_some(num),
                        points: (0..=num as i64 % 4)
                            .map(|k| CorrectionPointRow {
                                from_time: num % 2 == 1,
                                from: (at + k * length, 3),
                                civil: (at - k, 4),
                                uncertainty: (k % 2 == 0).then_some((length, 5)),
                                to: (-at, 6),
                                is_outlier: k == 3,
                            })
                            .collect(),
                    }),
                }),
                _ => ops.push(Op::EventRemove {
                    id: ID,
                    event: u64::from(small) + num,
                }),
            }
        }
        ops
    })
}

fn after(ops: &[Op]) -> SignalState {
    let mut state = SignalState::new(ID, "x", meta());
    ops.iter().for_each(|op| state.apply(op));
    state
}

fn same(a: &SignalState, b: &SignalState) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.end, b.end);
    prop_assert_eq!(a.tables(), b.tables());
    prop_assert_eq!(a.events.next_id(), b.events.next_id());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn tables_hold_the_whole_state(ops in ops()) {
        let state = after(&ops);
        let again = SignalState::from_tables(ID, "x", meta(), state.end, &state.tables());
        same(&state, &again.map_err(|error| TestCaseError::fail(error.to_string()))?)?;
    }

    #[test]
    fn replaying_over_any_mixture_of_tables_gives_the_last_state(
        ops in ops(), ages in proptest::collection::vec(0usize..=100, 6), end_age in 0usize..=100,
    ) {
        let last = after(&ops);
        let at = |age: usize| after(&ops[..ops.len() * age / 100]);
        let mut mixed = SignalState::new(ID, "x", meta());
        // Each table is from a different moment.
        mixed.end = at(end_age).end;
        mixed.gaps = at(ages[0]).gaps;
        mixed.runs = at(ages[1]).runs;
        mixed.points = at(ages[2]).points;
        mixed.fit = at(ages[3]).fit;
        mixed.events = at(ages[4]).events;
        mixed.corrections = at(ages[5]).corrections;
        ops.iter().for_each(|op| mixed.apply(op));
        same(&mixed, &last)?;
    }

    #[test]
    fn lookups_agree_with_maps(ops in ops(), a in 0i64..500, b in 0i64..500) {
        let state = after(&ops);
        let mut events: BTreeMap<u64, EventRow> = BTreeMap::new();
        let mut points: BTreeMap<(u32, i64), PointRow> = BTreeMap::new();
        let mut fit: BTreeMap<(u32, i64), PieceRow> = BTreeMap::new();
        for op in &ops {
            match op {
                Op::Event { event, .. } => _ = events.insert(event.id, event.clone()),
                Op::EventRemove { event, .. } => _ = events.remove(event),
                Op::Point { point, .. } => _ = points.insert((point.run, point.index), *point),
                Op::Fit { run, from, pieces, .. } => {
                    fit.retain(|(of, index), _| of != run || index < from);
                    fit.extend(pieces.iter().map(|piece| ((*run, piece.index), *piece)));
                }
                _ => {}
            }
        }
        let range = a.min(b)..a.max(b);
        let mut inside: Vec<_> = events
            .values()
            .filter(|event| event.start < range.end && event.end.max(event.start + 1) > range.start)
            .cloned()
            .collect();
        inside.sort_by_key(|event| (event.start, event.id));
        let got: Vec<_> = state.events.within(range.clone()).map(|event| (**event).clone()).collect();
        prop_assert_eq!(got, if range.is_empty() { Vec::new() } else { inside });
        for (id, event) in &events {
            prop_assert_eq!(state.events.by_id(*id).map(|found| (**found).clone()), Some(event.clone()));
        }
        prop_assert_eq!(state.points.iter().collect::<Vec<_>>(), points.values().copied().collect::<Vec<_>>());
        for run in 0..6 {
            let of_run: Vec<_> = fit.iter().filter(|((of, _), _)| *of == run).map(|(_, piece)| *piece).collect();
            prop_assert_eq!(state.fit.of_run(run).collect::<Vec<_>>(), of_run.clone());
            prop_assert_eq!(state.fit.count_of_run(run), of_run.len());
            prop_assert_eq!(state.fit.last_of_run(run), of_run.last().copied());
        }
        let found = state.runs.at(a).map(|run| run.start..run.end);
        if a < state.end {
            prop_assert!(found.is_some_and(|run| run.contains(&a)));
        }
    }

    #[test]
    fn no_operation_panics(start in any::<i64>(), end in any::<i64>(), run in any::<u32>()) {
        let mut state = after(&[]);
        let reason = RunReason::First;
        for op in [
            Op::Gap { id: ID, start, end },
            Op::Valid { id: ID, start, end },
            Op::End { id: ID, end },
            Op::Run { id: ID, run: RunRow { id: run, start, end, reason } },
            Op::Fit { id: ID, run, from: start, pieces: vec![piece(0, -1, 1)] },
            Op::EventRemove { id: ID, event: u64::MAX },
            Op::Remove { id: ID },
            Op::End { id: SignalId(8), end: 1 },
        ] {
            state.apply(&op);
        }
        prop_assert!(state.end >= 0);
    }
}

#[test]
fn a_snapshot_of_a_million_rows_costs_nothing() {
    let rows: Vec<i64> = (0..1_000_000).flat_map(|k| [k * 4, 2]).collect();
    let gaps = Table {
        name: GAPS,
        columns: 2,
        rows,
        text: Vec::new(),
    };
    let mut state = SignalState::from_tables(ID, "x", meta(), 4_000_000, &[gaps]).unwrap();
    let start = std::time::Instant::now();
    for k in 0..1_000 {
        let snapshot = state.clone();
        state.apply(&Op::Gap {
            id: ID,
            start: 4_000_000 + k * 4,
            end: 4_000_002 + k * 4,
        });
        assert_eq!(snapshot.gaps.len() as i64, 1_000_000 + k);
    }
    // Copying the rows would take some 10 ms each time.
    assert!(start.elapsed().as_secs() < 2, "{:?}", start.elapsed());
}

/// Two points, each with one column changed.
fn correction(changes: [(usize, i64); 2]) -> Vec<i64> {
    let sound = |(column, value): (usize, i64)| {
        let mut row = vec![0, -1, 0, 1, 0, 1_000_000, 0, 5, 0, 5, 0, 5, 0, -1, 5, 0, 0];
        row[column] = value;
        row
    };
    changes.into_iter().flat_map(sound).collect()
}

#[test]
fn rejects_impossible_tables_and_names_the_row() {
    for (name, rows, row) in [
        (GAPS, vec![5, 2, 6, 1], 1),
        (RUNS, vec![0, 0, 10, 0, 1, 5, 20, 0], 1),
        (RUNS, vec![0, 0, 10, 99], 0),
        (RUNS, vec![-1, 0, 10, 0], 0),
        (POINTS, vec![0, 5, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0], 1),
        (POINTS, vec![0, 5, 0, -1, 0, 0, 0], 0),
        (FIT, vec![0, 0, -1, 0, 0, 0, 1, 0, 0], 0),
        (CORRECTIONS, correction([(0, 1), (2, 2)]), 1),
        (CORRECTIONS, correction([(6, 0), (2, 7)]), 1),
        (CORRECTIONS, correction([(0, 0), (11, -5)]), 1),
        (CORRECTIONS, correction([(3, 256), (0, 0)]), 0),
        (CORRECTIONS, correction([(8, -1), (0, 0)]), 0),
        (EVENTS, vec![1, 0, 5, 0, 9], 0),
        (EVENTS, vec![1, 5, 2, 0, 0], 0),
    ] {
        let columns = Table::columns_of(name).unwrap();
        let table = Table {
            name,
            columns,
            rows,
            text: Vec::new(),
        };
        match SignalState::from_tables(ID, "x", meta(), 100, &[table]) {
            Err(StoreError::DamagedTable {
                table, row: got, ..
            }) => assert_eq!((table, got), (name, row)),
            other => panic!("{name}: {other:?}"),
        }
    }
    let odd = Table {
        name: GAPS,
        columns: 2,
        rows: vec![1, 2, 3],
        text: Vec::new(),
    };
    assert!(SignalState::from_tables(ID, "x", meta(), 100, &[odd]).is_err());
}
