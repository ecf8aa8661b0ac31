//! Methods of [`Plan`] that add an operator.

use isochrony_expr::Expr;
use isochrony_segment::DType;
use serde_json::{Value, json};

use super::{
    Between, Count, Delayed, Feedback, Fft, Filter, GroupBy, Join, Limit, Map, Merge, Passthrough,
    Power, Rewindow, Select, Stat, Stats, Sync, ToRows, Zip,
};
use crate::{OperatorBuilder, OperatorType, Plan, PlanError};

fn params(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => serde_json::Map::new(),
    }
}

fn named<'a>(fields: impl IntoIterator<Item = (&'a str, Expr)>) -> serde_json::Map<String, Value> {
    fields
        .into_iter()
        .map(|(name, expr)| (name.to_owned(), json!(expr)))
        .collect()
}

impl Plan {
    /// Adds an operator of one input.
    ///
    /// ```
    /// # use isochrony_flow::{Plan, Segments, operators::StaLta};
    /// # use isochrony_segment::{SigSeg, Stream};
    /// # use isochrony_time::{Rate, TimebaseId};
    /// # let stream = Stream::new("noise", TimebaseId(0), Rate::new(100, 1)?).intern();
    /// # let noise = Segments::new([SigSeg::from_slice(&[0.5f32; 40], 0, stream)?]).expect("in order");
    /// let plan = Plan::scan(noise).add(StaLta::builder().sta(0.1).lta(0.3))?;
    /// assert_eq!(plan.to_string(), "scan(noise) -> stalta(sta=0.1, lta=0.3)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn add(&self, operator: impl OperatorBuilder) -> Result<Self, PlanError> {
        self.add_with(operator, &[])
    }

    /// Adds an operator with this plan and others as inputs.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn add_with(
        &self,
        operator: impl OperatorBuilder,
        others: &[Self],
    ) -> Result<Self, PlanError> {
        let (declaration, params) = operator.into_parts();
        self.apply(&declaration, params, others)
    }

    /// [`Passthrough`].
    pub fn passthrough(&self) -> Result<Self, PlanError> {
        self.then::<Passthrough>(serde_json::Map::new())
    }

    /// [`Rewindow`] without overlap.
    ///
    /// # Errors
    /// [`PlanError::Parameter`], [`PlanError::InputType`].
    pub fn rewindow(&self, window: u64) -> Result<Self, PlanError> {
        self.then::<Rewindow>(params(json!({"window": window})))
    }

    /// [`Rewindow`] every `hop` samples.
    ///
    /// # Errors
    /// [`PlanError::Parameter`], [`PlanError::InputType`].
    pub fn rewindow_every(&self, window: u64, hop: u64) -> Result<Self, PlanError> {
        self.then::<Rewindow>(params(json!({"window": window, "hop": hop})))
    }

    /// [`Stats`].
    ///
    /// # Errors
    /// [`PlanError::Parameter`], [`PlanError::InputType`].
    pub fn stats(&self, stats: impl IntoIterator<Item = Stat>) -> Result<Self, PlanError> {
        let names: Vec<&str> = stats.into_iter().map(Stat::name).collect();
        self.then::<Stats>(params(json!({"names": names})))
    }

    /// [`Between`]: samples, or whole windows, in a range of indices.
    ///
    /// # Errors
    /// [`PlanError::InputType`].
    pub fn between(&self, range: std::ops::Range<i64>) -> Result<Self, PlanError> {
        self.then::<Between>(params(json!({"start": range.start, "end": range.end})))
    }

    /// [`ToRows`]: one row per window, with these fields.
    ///
    /// # Errors
    /// [`PlanError::Expression`], [`PlanError::InputType`], [`PlanError::FieldTwice`].
    pub fn rows<'a>(
        &self,
        fields: impl IntoIterator<Item = (&'a str, Expr)>,
    ) -> Result<Self, PlanError> {
        self.then::<ToRows>(params(json!({"fields": named(fields)})))
    }

    /// [`Select`]: keeps fields of rows and adds computed ones.
    ///
    /// # Errors
    /// [`PlanError::UnknownField`], [`PlanError::Expression`], [`PlanError::InputType`], [`PlanError::FieldTwice`].
    pub fn select<'a>(
        &self,
        names: &[&str],
        fields: impl IntoIterator<Item = (&'a str, Expr)>,
    ) -> Result<Self, PlanError> {
        self.then::<Select>(params(json!({"names": names, "fields": named(fields)})))
    }

    /// [`GroupBy`]: `aggregates` maps names to `json!("count")` or `json!(["field", "max"])`.
    ///
    /// # Errors
    /// [`PlanError::UnknownField`], [`PlanError::Parameter`], [`PlanError::InputType`], [`PlanError::FieldTwice`].
    pub fn group_by<'a>(
        &self,
        keys: &[&str],
        aggregates: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Self, PlanError> {
        let aggregates = aggregates
            .into_iter()
            .map(|(name, what)| (name.to_owned(), what));
        let aggregates: serde_json::Map<String, Value> = aggregates.collect();
        self.then::<GroupBy>(params(json!({"keys": keys, "aggregates": aggregates})))
    }

    /// [`Join`] with another plan's rows: overlapping ones, or the nearest within a tolerance in seconds.
    ///
    /// # Errors
    /// [`PlanError::InputType`], [`PlanError::InputsDiffer`], [`PlanError::FieldTwice`].
    pub fn join(&self, other: &Self, tolerance: Option<f64>) -> Result<Self, PlanError> {
        let params = params(json!({"tolerance": tolerance}));
        self.apply(&Join::DECLARATION, params, std::slice::from_ref(other))
    }

    /// [`Count`].
    pub fn count(&self) -> Result<Self, PlanError> {
        self.then::<Count>(serde_json::Map::new())
    }

    /// [`Filter`].
    ///
    /// # Errors
    /// [`PlanError::Expression`], [`PlanError::Predicate`], [`PlanError::InputType`].
    pub fn filter(&self, predicate: &Expr) -> Result<Self, PlanError> {
        self.then::<Filter>(params(json!({"predicate": predicate})))
    }

    /// [`Map`].
    ///
    /// # Errors
    /// [`PlanError::Expression`], [`PlanError::InputType`].
    pub fn map(&self, expression: &Expr) -> Result<Self, PlanError> {
        self.then::<Map>(params(json!({"expression": expression})))
    }

    /// [`Map`] of several inputs, matched by index; this plan is input 0 of [`Expr::input_at`].
    ///
    /// # Errors
    /// [`PlanError::Expression`], [`PlanError::InputType`], [`PlanError::InputsDiffer`].
    pub fn map_with(&self, expression: &Expr, others: &[Self]) -> Result<Self, PlanError> {
        self.apply(
            &Map::DECLARATION,
            params(json!({"expression": expression})),
            others,
        )
    }

    /// [`Filter`] by an expression of several inputs, matched by index. Windows of this plan, input 0 of
    /// [`Expr::input_at`], pass.
    ///
    /// # Errors
    /// As [`filter`](Self::filter), and [`PlanError::InputsDiffer`].
    pub fn filter_with(&self, predicate: &Expr, others: &[Self]) -> Result<Self, PlanError> {
        self.apply(
            &Filter::DECLARATION,
            params(json!({"predicate": predicate})),
            others,
        )
    }

    /// [`Fft`].
    ///
    /// # Errors
    /// [`PlanError::InputType`].
    pub fn fft(&self) -> Result<Self, PlanError> {
        self.then::<Fft>(serde_json::Map::new())
    }

    /// [`Power`] as a density, with the mean removed and a Hann taper.
    ///
    /// # Errors
    /// [`PlanError::InputType`].
    pub fn power(&self) -> Result<Self, PlanError> {
        self.then::<Power>(serde_json::Map::new())
    }

    /// [`Limit`].
    ///
    /// # Errors
    /// [`PlanError::Parameter`].
    pub fn limit(&self, count: u64) -> Result<Self, PlanError> {
        self.then::<Limit>(params(json!({"count": count})))
    }

    /// [`Merge`] with others.
    ///
    /// # Errors
    /// [`PlanError::InputsDiffer`].
    pub fn merge(&self, others: &[Self]) -> Result<Self, PlanError> {
        self.apply(&Merge::DECLARATION, serde_json::Map::new(), others)
    }

    /// [`Zip`] with others.
    ///
    /// # Errors
    /// [`PlanError::InputsDiffer`], [`PlanError::Inputs`].
    pub fn zip(&self, others: &[Self]) -> Result<Self, PlanError> {
        self.apply(&Zip::DECLARATION, serde_json::Map::new(), others)
    }

    /// A loop: `body` gets this plan and what it feeds back, `by` windows (or samples) later; it returns the result and
    /// what is fed back. The first windows of every contiguous range get `initial`: a number or the values of a window,
    /// of type `dtype`. A window waits for the one fed back for it, so short delays run window by window.
    ///
    /// ```
    /// # use isochrony_flow::{Plan, Segments, json};
    /// # use isochrony_segment::{DType, SigSeg, Stream};
    /// # use isochrony_time::{Rate, TimebaseId};
    /// use isochrony_expr::Expr;
    /// # let stream = Stream::new("tone", TimebaseId(0), Rate::new(100, 1)?).intern();
    /// # let samples = Segments::new([SigSeg::from_slice(&[1.0f64, 0.0, 0.0, 0.0, 0.0], 0, stream)?]).expect("in order");
    /// // An echo: y[n] = x[n] + y[n - 2] / 2.
    /// let echo = Plan::scan(samples).feedback(2, json!(0.0), DType::F64, |x, back| {
    ///     let y = x.map_with(&(Expr::input() + Expr::input_at(1) / 2), &[back.clone()])?;
    ///     Ok((y.clone(), y))
    /// })?;
    /// assert_eq!(echo.collect()?.array().unwrap().to_vec::<f64>().unwrap(), [1.0, 0.0, 0.5, 0.0, 0.25]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Any error of `body`; [`PlanError::Parameter`], [`PlanError::InputType`]; [`PlanError::InputsDiffer`] if the
    /// feedback is not as declared; [`PlanError::LoopMayStall`] if it may lack windows.
    pub fn feedback(
        &self,
        by: u64,
        initial: Value,
        dtype: DType,
        body: impl FnOnce(&Self, &Self) -> Result<(Self, Self), PlanError>,
    ) -> Result<Self, PlanError> {
        let settings = json!({"by": by, "initial": initial, "dtype": dtype.name()});
        let back = self.then::<Delayed>(params(settings))?;
        let (result, fed) = body(self, &back)?;
        result.apply(&Feedback::DECLARATION, params(json!({})), &[fed, back])
    }

    /// [`Sync`]: the last of `others` provides the ranges.
    ///
    /// # Errors
    /// [`PlanError::InputType`], [`PlanError::InputsDiffer`], [`PlanError::Inputs`].
    pub fn sync(&self, others: &[Self]) -> Result<Self, PlanError> {
        self.apply(&Sync::DECLARATION, serde_json::Map::new(), others)
    }
}
