//! An operator that fails on request.

use isochrony_flow::{
    Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out, Plan, PlanError,
    Port, PortType, json, operator,
};

operator! {
    /// Fails or panics at a sample.
    pub struct Fail = "fail" (Inputs::Exactly(1)) {
        /// Sample indices.
        at: Vec<f64> = "numbers" {},
        /// "error" or "panic".
        how: String = "text" { choices: &["error", "panic"], default: || json!("error") },
    }
    state {}
}

impl Operator for Fail {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let hit = |at: &&f64| {
            item.range()
                .is_some_and(|range| range.contains(&(**at as i64)))
        };
        if let Some(at) = self.at.iter().find(hit) {
            assert!(self.how == "error", "sample {at} is cursed");
            return Err(OpErrorKind::Failed(format!("sample {at} is bad").into()).into());
        }
        Ok(Next::Forward)
    }
}

pub(crate) fn failing(plan: &Plan, at: &[i64], how: &str) -> Plan {
    let params = json!({"at": at, "how": how}).as_object().unwrap().clone();
    plan.then::<Fail>(params).unwrap()
}
