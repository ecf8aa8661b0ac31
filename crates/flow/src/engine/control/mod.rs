//! Changes parameters during execution.
//!
//! Any thread may change parameters through a shared [`Control`]. A change names the written plan that ends in the
//! operator. It is checked at once: the changed plan is rewritten, and operators that differ get a [`ParameterChanges`]
//! entry, which takes effect at one index of the operator's input in all threads.

mod added;
mod adjustable;
mod branches;
pub(crate) mod changeable;
pub(crate) mod changes;
mod switched;
mod sync;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use super::branches::{RunningBranches, TapInbox};
use super::options::RunOptions;
use super::report::{BranchReport, ChangeReport, StageMeasurement};
use super::tuning::RunningPlan;
use crate::optimiser::optimise;
use crate::plan::graph::{Graph, GraphNode};
use crate::plan::rows::START;
use crate::plan::{METHOD_PARAMETER, Op};
use crate::{Plan, PlanError, PortType};

use added::AddedBranch;
use changeable::has_adjustable;
use changes::ParameterChanges;

/// Changes parameters of a running plan, in [`RunOptions::control`](crate::RunOptions::control). Reusable, but
/// concurrent use fails with [`PlanError::ControlInUse`].
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
    /// Taken out during calls: functions of branches may use the control.
    branches: Mutex<RunningBranches>,
    has_branches: AtomicBool,
}

#[derive(Default)]
struct State {
    active: Option<ActivePlan>,
    /// None with one thread. Used under the lock only, so gone when the execution ends.
    running: Option<Arc<dyn RunningPlan>>,
    early: Vec<EarlyChange>,
    early_branches: Vec<EarlyBranch>,
}

struct EarlyBranch {
    plan: Plan,
    at: Option<i64>,
    until: Option<i64>,
}

struct EarlyChange {
    plan: Plan,
    params: Map<String, Value>,
    at: Option<i64>,
}

struct ActivePlan {
    written: Graph,
    changed: Graph,
    executed: Graph,
    optimised: bool,
    is_parallel: bool,
    tolerance: f64,
    /// By executed operator; None if not adjustable.
    changes: Vec<Option<Arc<ParameterChanges>>>,
    requests: Vec<ChangeRequest>,
    branches: Vec<AddedBranch>,
    inboxes: Vec<Arc<TapInbox>>,
    is_open: bool,
}

struct ChangeRequest {
    operator: &'static str,
    node: usize,
    params: Map<String, Value>,
    /// The first affected operator's changes, and its number there, which decide the index. None if nothing changes.
    decided_by: Option<(Arc<ParameterChanges>, usize)>,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        f.debug_struct("Control")
            .field("running", &state.active.is_some())
            .field("early", &(state.early.len() + state.early_branches.len()))
            .finish()
    }
}

impl Control {
    /// Ignores poison: no call under the lock leaves it inconsistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets parameters of the last operator of `at` for all after what it has received; before an execution, from the
    /// first item. The operator keeps its state where it can: an expression keeps that of unchanged parts. Where it
    /// declares [`alternatives`](crate::Declaration::alternatives), `method` names one of them or the default: no result is
    /// lost or repeated.
    ///
    /// # Errors
    /// [`PlanError::NotWithinTolerance`] if an implementation exceeds
    /// [`RunOptions::tolerance`](crate::RunOptions::tolerance); [`PlanError::NotAdjustable`], [`PlanError::Parameter`],
    /// [`PlanError::Expression`]; [`PlanError::NotRunning`] if the operator is not in the running plan,
    /// [`PlanError::ChangesPlan`] if something else would change too, [`PlanError::ChangesMemory`] with several
    /// threads.
    pub fn set<'a>(
        &self,
        at: &Plan,
        params: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<(), PlanError> {
        self.request(at, None, params)
    }

    /// The same from an index of the input on, but not before earlier changes or what was received:
    /// [`Report::changes`](crate::Report) lists the actual index.
    ///
    /// # Errors
    /// As [`set`](Self::set); [`PlanError::NoIndices`] if the input has none.
    pub fn set_from<'a>(
        &self,
        at: &Plan,
        index: i64,
        params: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<(), PlanError> {
        self.request(at, Some(index), params)
    }

    /// Sets a stage's replicas, from 1 to the initial number. A retired one completes its block. Results are unchanged.
    ///
    /// # Errors
    /// [`PlanError::NoStages`]; [`PlanError::NoReplicas`] if the stage has none, or not so many.
    pub fn set_replicas(&self, stage: usize, replicas: usize) -> Result<(), PlanError> {
        self.with_stages(|stages| stages.set_replicas(stage, replicas))?
    }

    /// Sets a link's capacity in bytes, at least 1, above which its writer waits. Numbered as in
    /// [`Report::links`](crate::Report). Results are unchanged.
    ///
    /// # Errors
    /// [`PlanError::NoStages`], [`PlanError::NoLink`].
    pub fn set_link_capacity(&self, link: usize, bytes: u64) -> Result<(), PlanError> {
        self.with_stages(|stages| stages.set_link_capacity(link, bytes))?
    }

    /// Sets how many threads execute stages, clamped to 1..=initial. Results are unchanged.
    ///
    /// # Errors
    /// [`PlanError::NoStages`].
    pub fn set_workers(&self, workers: usize) -> Result<(), PlanError> {
        self.with_stages(|stages| stages.set_workers(workers))
    }

    /// Statistics of stages and links so far.
    ///
    /// # Errors
    /// [`PlanError::NoStages`] if no stages are being executed.
    pub fn measurement(&self) -> Result<StageMeasurement, PlanError> {
        self.with_stages(|stages| stages.measurement())
    }

    fn with_stages<T>(&self, call: impl FnOnce(&dyn RunningPlan) -> T) -> Result<T, PlanError> {
        let state = self.state();
        let running = state
            .running
            .as_deref()
            .filter(|running| running.is_staged());
        let stages = running.ok_or(PlanError::NoStages {
            running: state.active.is_some(),
        })?;
        Ok(call(stages))
    }

    pub(crate) fn attach(&self, running: Arc<dyn RunningPlan>) {
        self.state().running = Some(running);
    }

    pub(crate) fn detach(&self) {
        self.state().running = None;
    }

    fn request<'a>(
        &self,
        plan: &Plan,
        at: Option<i64>,
        params: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<(), PlanError> {
        let params: Map<String, Value> = params
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        check_adjustable(plan, &params)?;
        if at.is_some() && !has_indices(plan) {
            let operator = plan.node.op.name();
            return Err(PlanError::NoIndices { operator });
        }
        let mut state = self.state();
        match &mut state.active {
            Some(active) => active.change(plan, params, at),
            None => {
                let graph = Graph::new(plan);
                let node = graph.outputs[0].0;
                with(&graph, node, &params)?;
                let plan = plan.clone();
                state.early.push(EarlyChange { plan, params, at });
                Ok(())
            }
        }
    }

    pub(crate) fn begin(
        &self,
        written: &Graph,
        options: &RunOptions<'_>,
        is_parallel: bool,
    ) -> Result<Graph, PlanError> {
        let optimised = options.optimise;
        let mut state = self.state();
        if state.active.is_some() {
            // Changes name operators of one execution.
            return Err(PlanError::ControlInUse);
        }
        let mut active = ActivePlan {
            written: written.clone(),
            changed: written.clone(),
            executed: rewritten(written, optimised),
            optimised,
            is_parallel,
            tolerance: options.tolerance,
            changes: Vec::new(),
            requests: Vec::new(),
            branches: Vec::new(),
            inboxes: Vec::new(),
            is_open: false,
        };
        let early = std::mem::take(&mut state.early);
        let (first, later): (Vec<_>, Vec<_>) = early.into_iter().partition(|one| one.at.is_none());
        for change in first {
            active.change(&change.plan, change.params, None)?;
        }
        active.requests.clear();
        let mut executed = active.executed.clone();
        let nodes = 0..executed.nodes.len();
        let changes = nodes.map(|at| adjustable_node(&mut executed, at, options.tolerance));
        active.changes = changes.collect();
        for change in later {
            active.change(&change.plan, change.params, change.at)?;
        }
        for early in std::mem::take(&mut state.early_branches) {
            if let Err(error) = self.add_to(&mut active, &early.plan, early.at) {
                *self.branches() = RunningBranches::default();
                return Err(error);
            }
            if let (Some(_), Some(branch)) = (early.until, active.branches.last_mut()) {
                branch.remove(early.until);
            }
        }
        state.active = Some(active);
        Ok(executed)
    }

    pub(crate) fn end(&self) -> (Vec<ChangeReport>, Vec<BranchReport>) {
        let mut state = self.state();
        state.running = None;
        self.has_branches.store(false, Ordering::Release);
        let unfinished = std::mem::take(&mut *self.branches());
        let Some(active) = state.active.take() else {
            return Default::default();
        };
        drop(state);
        // May call user code.
        drop(unfinished);
        let branches = active.branches.iter().map(AddedBranch::report).collect();
        let requests = active.requests.into_iter();
        let reports = requests.map(|request| ChangeReport {
            operator: request.operator,
            node: request.node,
            params: request.params,
            from: request
                .decided_by
                .and_then(|(changes, number)| changes.effective_from(number)),
        });
        (reports.collect(), branches)
    }
}

fn adjustable_node(graph: &mut Graph, at: usize, tolerance: f64) -> Option<Arc<ParameterChanges>> {
    let types = inputs(graph, &graph.nodes[at]);
    let node = &mut graph.nodes[at];
    let Op::Apply {
        declaration,
        params,
        changes,
    } = &mut node.op
    else {
        return None;
    };
    if has_adjustable(declaration) {
        node.properties = adjustable::allow_splitting(node.properties.clone());
    } else {
        node.properties = switched::switchable(declaration, params, &types, tolerance)?;
    }
    Some(Arc::clone(changes.insert(Arc::default())))
}

fn rewritten(written: &Graph, optimised: bool) -> Graph {
    let mut graph = written.clone();
    if optimised {
        optimise(&mut graph);
    }
    graph
}

fn check_adjustable(at: &Plan, params: &Map<String, Value>) -> Result<(), PlanError> {
    let refused = |parameter: &str, may: String| PlanError::NotAdjustable {
        operator: at.node.op.name(),
        parameter: parameter.into(),
        adjustable: may,
    };
    let may: Vec<&str> = match &at.node.op {
        Op::Apply { declaration, .. } => {
            let implementations = !declaration.alternatives.is_empty();
            let may = declaration.params.iter().filter(|param| {
                param.adjustable || implementations && param.name == METHOD_PARAMETER
            });
            may.map(|param| param.name).collect()
        }
        _ => Vec::new(),
    };
    match params.keys().find(|name| !may.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) if may.is_empty() => Err(refused(name, "none".into())),
        Some(name) => Err(refused(name, may.join(", "))),
    }
}

fn has_indices(plan: &Plan) -> bool {
    let inputs = plan.inputs().first().map(Plan::port);
    match inputs {
        Some(PortType::Rows { fields, stream }) => stream.is_some() && fields.find(START).is_some(),
        _ => true,
    }
}

fn with(
    graph: &Graph,
    node: usize,
    params: &Map<String, Value>,
) -> Result<(Map<String, Value>, crate::OperatorProperties), PlanError> {
    let node = &graph.nodes[node];
    let Op::Apply {
        declaration,
        params: before,
        ..
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

fn inputs(graph: &Graph, node: &GraphNode) -> Vec<PortType> {
    let types = node
        .inputs
        .iter()
        .map(|&(n, output)| &graph.nodes[n].properties.outputs[usize::from(output)]);
    types.copied().collect()
}

impl ActivePlan {
    fn check_switch(&self, at: &Plan, params: &Map<String, Value>) -> Result<bool, PlanError> {
        let (Op::Apply { declaration, .. }, Some(method)) =
            (&at.node.op, params.get(METHOD_PARAMETER))
        else {
            return Ok(false);
        };
        if has_adjustable(declaration) {
            return Ok(false);
        }
        match switched::declared_tolerance(declaration, method) {
            Some(needs) if needs > self.tolerance => Err(PlanError::NotWithinTolerance {
                operator: declaration.name,
                method: method.as_str().unwrap_or_default().into(),
                needs,
                granted: self.tolerance,
            }),
            _ => Ok(true),
        }
    }

    /// Requests the changes that follow from a change of the written plan; before execution, only updates the graphs.
    fn change(
        &mut self,
        at: &Plan,
        params: Map<String, Value>,
        from: Option<i64>,
    ) -> Result<(), PlanError> {
        let operator = at.node.op.name();
        let named = self.written.find(&Graph::new(at));
        let node = named.ok_or(PlanError::NotRunning { operator })?;
        let (all, properties) = with(&self.changed, node, &params)?;
        let is_switch = self.check_switch(at, &params)?;
        let refused = |what: &str| PlanError::ChangesPlan {
            operator,
            what: what.into(),
        };
        let mut changed = self.changed.clone();
        changed.nodes[node].properties = properties;
        if let Op::Apply { params, .. } = &mut changed.nodes[node].op {
            *params = all;
        }
        let executed = rewritten(&changed, self.optimised);
        let structure = |graph: &Graph| -> Vec<_> {
            let nodes = graph.nodes.iter();
            nodes
                .map(|node| (node.op.name(), node.inputs.clone()))
                .collect()
        };
        if structure(&executed) != structure(&self.executed) {
            return Err(refused("is rewritten otherwise"));
        }
        let mut changed_params = Vec::new();
        for (at, (now, before)) in executed.nodes.iter().zip(&self.executed.nodes).enumerate() {
            let Op::Apply {
                declaration,
                params,
                ..
            } = &now.op
            else {
                continue;
            };
            if now == before {
                continue;
            }
            let properties = (declaration.build)(params)?.bind(&inputs(&executed, now))?;
            // Before the execution, threads have no instances.
            let is_running = !self.changes.is_empty();
            let changes_memory = properties.contract != before.properties.contract && !is_switch;
            if self.is_parallel && is_running && changes_memory {
                return Err(PlanError::ChangesMemory { operator });
            }
            changed_params.push((at, params.clone()));
        }
        let mut decided_by = None;
        for (at, params) in changed_params {
            if let Some(Some(changes)) = self.changes.get(at) {
                let number = changes.request(params, from.unwrap_or(i64::MIN));
                decided_by.get_or_insert((Arc::clone(changes), number));
            }
        }
        (self.changed, self.executed) = (changed, executed);
        self.requests.push(ChangeRequest {
            operator,
            node,
            params,
            decided_by,
        });
        Ok(())
    }
}
