//! Changes parameters while a plan is executed.
//!
//! A [`Control`] is shared by the execution and by whoever changes it, in any thread. A change names, as written, the
//! plan that ends in the operator. It is checked at once: the changed plan is rewritten again, and replacements are
//! made for operators that now differ. The execution takes changes once a burst, so all items of a burst see the same
//! parameters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use crate::optimiser::optimise;
use crate::plan::Op;
use crate::plan::graph::Graph;
use crate::{Operator, Plan, PlanError, PortType};

/// Changes parameters of a running plan, which gets it in [`RunOptions::control`](crate::RunOptions::control).
///
/// It serves one execution after another; a second at the same time ends in [`PlanError::ControlInUse`].
///
/// ```
/// use isochrony_expr::Expr;
/// use isochrony_flow::{Control, Plan, RunOptions, Segments, json};
/// # use isochrony_segment::{SigSeg, Stream};
/// # use isochrony_time::{Rate, TimebaseId};
/// # let stream = Stream::new("tone", TimebaseId(0), Rate::new(100, 1)?).intern();
/// # let samples = Segments::new([SigSeg::from_slice(&[1i16, 5, 9], 0, stream)?]).expect("in order");
/// let s = Expr::input();
/// let loud = Plan::scan(samples).rewindow(1)?.filter(&s.max().gt(100))?;
/// let control = Control::default();
/// control.set(&loud, [("predicate", json!(s.max().gt(4)))])?; // here before it runs, as well from another thread
/// let mut options = RunOptions::default();
/// options.control = Some(&control);
/// assert_eq!(loud.count()?.collect_with(&options)?.0.count(), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Control {
    state: Mutex<State>,
    /// Changes are waiting.
    waits: AtomicBool,
}

#[derive(Default)]
struct State {
    active: Option<ActivePlan>,
    /// Requested before the execution began.
    early: Vec<(Plan, Map<String, Value>)>,
    waiting: Vec<Change>,
}

struct ActivePlan {
    /// Changes are named by it.
    written: Graph,
    /// The plan with all changes so far, before and after rewriting.
    changed: Graph,
    executed: Graph,
    optimised: bool,
}

pub(crate) struct Change {
    pub(crate) node: usize,
    pub(crate) params: Map<String, Value>,
    pub(crate) fresh: Box<dyn Operator>,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        f.debug_struct("Control")
            .field("running", &state.active.is_some())
            .field("waiting", &(state.early.len() + state.waiting.len()))
            .finish()
    }
}

impl Control {
    /// No call under the lock leaves it inconsistent, so poison is ignored.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets parameters of the last operator of `at`, from the next burst on, or before an execution begins. An
    /// operator keeps its state where it can: an expression keeps that of parts that are written as before.
    ///
    /// # Errors
    /// [`PlanError::NotAdjustable`], [`PlanError::Parameter`], [`PlanError::Expression`]; [`PlanError::NotRunning`] if
    /// the operator is none of the running plan, [`PlanError::ChangesPlan`] if something else would have to change
    /// with it.
    pub fn set<'a>(
        &self,
        at: &Plan,
        params: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<(), PlanError> {
        let params: Map<String, Value> = params
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        adjustable(at, &params)?;
        let mut state = self.state();
        let State {
            active,
            early,
            waiting,
        } = &mut *state;
        match active {
            None => {
                let graph = Graph::new(at);
                let node = graph.outputs[0].0;
                with(&graph, node, &params)?;
                early.push((at.clone(), params));
            }
            Some(active) => {
                waiting.extend(active.change(at, &params)?);
                self.waits.store(true, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Begins an execution; returns the rewritten graph with all earlier changes.
    pub(crate) fn begin(&self, written: &Graph, optimised: bool) -> Result<Graph, PlanError> {
        let mut state = self.state();
        if state.active.is_some() {
            // Changes name operators of one execution by number.
            return Err(PlanError::ControlInUse);
        }
        let mut active = ActivePlan {
            written: written.clone(),
            changed: written.clone(),
            executed: rewritten(written, optimised),
            optimised,
        };
        for (at, params) in std::mem::take(&mut state.early) {
            active.change(&at, &params)?;
        }
        let executed = active.executed.clone();
        state.waiting.clear();
        self.waits.store(false, Ordering::Release);
        state.active = Some(active);
        Ok(executed)
    }

    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.active = None;
        state.waiting.clear();
    }

    #[inline]
    pub(crate) fn take(&self) -> Vec<Change> {
        if !self.waits.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut state = self.state();
        self.waits.store(false, Ordering::Release);
        std::mem::take(&mut state.waiting)
    }
}

fn rewritten(written: &Graph, optimised: bool) -> Graph {
    let mut graph = written.clone();
    if optimised {
        optimise(&mut graph);
    }
    graph
}

fn adjustable(at: &Plan, params: &Map<String, Value>) -> Result<(), PlanError> {
    let refused = |parameter: &str, may: String| PlanError::NotAdjustable {
        operator: at.node.op.name(),
        parameter: parameter.into(),
        adjustable: may,
    };
    let declared = match &at.node.op {
        Op::Apply { declaration, .. } => declaration.params,
        _ => &[],
    };
    let may = declared.iter().filter(|param| param.adjustable);
    let may: Vec<&str> = may.map(|param| param.name).collect();
    match params.keys().find(|name| !may.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) if may.is_empty() => Err(refused(name, "none".into())),
        Some(name) => Err(refused(name, may.join(", "))),
    }
}

/// All parameters of a node with some changed, and its binding.
fn with(
    graph: &Graph,
    node: usize,
    params: &Map<String, Value>,
) -> Result<(Map<String, Value>, crate::OperatorProperties), PlanError> {
    let node = &graph.nodes[node];
    let Op::Apply {
        declaration,
        params: before,
    } = &node.op
    else {
        return Ok((Map::new(), node.properties.clone()));
    };
    let mut all = before.clone();
    for (name, value) in params {
        all.insert(name.clone(), value.clone());
    }
    let all = declaration.check(all)?;
    let properties = (declaration.build)(&all)?.bind(&inputs(graph, node))?;
    if properties.outputs == node.properties.outputs {
        return Ok((all, properties));
    }
    let types = |properties: &crate::OperatorProperties| {
        let types: Vec<String> = properties.outputs.iter().map(PortType::to_string).collect();
        types.join(", ")
    };
    Err(PlanError::ChangesPlan {
        operator: node.op.name(),
        what: format!(
            "gives {} instead of {}",
            types(&properties),
            types(&node.properties)
        ),
    })
}

fn inputs(graph: &Graph, node: &crate::plan::graph::GraphNode) -> Vec<PortType> {
    let types = node
        .inputs
        .iter()
        .map(|&(n, output)| &graph.nodes[n].properties.outputs[usize::from(output)]);
    types.copied().collect()
}

impl ActivePlan {
    /// The changes of running operators that follow from a change of the written plan.
    fn change(&mut self, at: &Plan, params: &Map<String, Value>) -> Result<Vec<Change>, PlanError> {
        let operator = at.node.op.name();
        let named = self.written.find(&Graph::new(at));
        let node = named.ok_or(PlanError::NotRunning { operator })?;
        let (all, properties) = with(&self.changed, node, params)?;
        let mut changed = self.changed.clone();
        changed.nodes[node].properties = properties;
        if let Op::Apply { params, .. } = &mut changed.nodes[node].op {
            *params = all;
        }
        let executed = rewritten(&changed, self.optimised);
        let alike = |graph: &Graph| -> Vec<_> {
            let nodes = graph.nodes.iter();
            nodes
                .map(|node| (node.op.name(), node.inputs.clone()))
                .collect()
        };
        if alike(&executed) != alike(&self.executed) {
            return Err(PlanError::ChangesPlan {
                operator,
                what: "is rewritten otherwise".into(),
            });
        }
        let mut changes = Vec::new();
        for (node, (now, before)) in executed.nodes.iter().zip(&self.executed.nodes).enumerate() {
            if now == before {
                continue;
            }
            if let Op::Apply {
                declaration,
                params,
            } = &now.op
            {
                let mut fresh = (declaration.build)(params)?;
                fresh.bind(&inputs(&executed, now))?;
                let params = params.clone();
                changes.push(Change {
                    node,
                    params,
                    fresh,
                });
            }
        }
        (self.changed, self.executed) = (changed, executed);
        Ok(changes)
    }
}
