//! The macro that declares an operator.

/// Declares an operator: a struct of parameters and state, and a typed builder.
///
/// The doc comment is the operator's documentation: one sentence, then the sections `# Inputs`, `# Returns`,
/// `# Conventions`, `# Errors`, `# Source` and `# Example` (in Python); see
/// [`Declaration::section`](crate::Declaration::section). A parameter has a Rust type, a [kind](crate::Param::kind),
/// and any of `unit` (a [`Unit`](crate::Unit)), `choices`, `default`, `adjustable`, `positional` and `explicit`. Its legal
/// numbers are a `range`, both bounds included, or have a bound each: `at_least` or `above`, `at_most` or `below`.
///
/// ```
/// use isochrony_flow::{
///     Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, Plan, PlanError, Port, PortType, Segments, json, operator,
/// };
/// # use isochrony_segment::{SigSeg, Stream};
/// # use isochrony_time::{Rate, TimebaseId};
///
/// operator! {
///     /// Lets every n-th item pass.
///     ///
///     /// # Inputs
///     /// Anything.
///     ///
///     /// # Returns
///     /// The same, with gaps where items were left out.
///     pub struct Thin = "thin" (Inputs::Exactly(1)) {
///         /// One item in so many passes.
///         every: u64 = "integer" { unit: Of("items"), range: (1.0, 1e9), default: || json!(2) },
///     }
///     state {
///         seen: u64,
///     }
/// }
///
/// impl Operator for Thin {
///     fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
///         Ok(OperatorProperties::new(inputs.iter().copied()).data_dependent())
///     }
///
///     fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
///         self.seen += 1;
///         Ok(if self.seen % self.every == 0 { Next::Forward } else { Next::Consumed })
///     }
/// }
/// # let stream = Stream::new("tone", TimebaseId(0), Rate::new(100, 1)?).intern();
/// # let tone = Segments::new([SigSeg::from_slice(&[0i16; 12], 0, stream)?]).expect("in order");
///
/// let plan = Plan::scan(tone).rewindow(2)?.add(Thin::builder().every(3u64))?;
/// assert_eq!(plan.to_string(), "scan(tone) -> rewindow(window=2) -> thin(every=3)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! operator {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $Name:ident = $name:literal ($inputs:expr) {
            $(
                $(#[doc = $pdoc:literal])*
                $param:ident : $type:ty = $kind:literal { $($key:ident : $value:expr),* $(,)? }
            ),* $(,)?
        }
        state { $( $(#[$sattr:meta])* $state:ident : $stype:ty ),* $(,)? }
        $(alternatives { $($other:literal: $agreement:expr),* $(,)? })?
    ) => {
        $(#[doc = $doc])*
        #[derive(Default)]
        $vis struct $Name {
            $( $(#[doc = $pdoc])* pub $param: $type, )*
            $( $(#[$sattr])* $state: $stype, )*
        }

        impl $crate::OperatorType for $Name {
            const DECLARATION: $crate::Declaration = {
                #[allow(unused_imports)]
                use $crate::{ResultTolerance::*, Unit::*};
                $crate::Declaration {
                    name: $name,
                    doc: concat!($($doc, "\n"),*),
                    module: module_path!(),
                    inputs: $inputs,
                    params: &[$(
                        $crate::Param::new(stringify!($param), concat!($($pdoc, "\n"),*), $kind)$(.$key($value))*
                    ),*],
                    alternatives: &[$($(($other, $agreement)),*)?],
                    build: |_params| Ok(Box::new(Self {
                        $( $param: $crate::Declaration::read($name, stringify!($param), _params)?, )*
                        $( $state: Default::default(), )*
                    })),
                }
            };
        }

        const _: () = {
            /// Operator parameters, with a method each. Unset ones have their defaults.
            #[derive(Debug, Clone, Default)]
            #[must_use]
            #[allow(unreachable_pub)]
            $vis struct Builder($crate::JsonObject);

            #[allow(dead_code, unreachable_pub)]
            impl Builder {
                $(
                    $(#[doc = $pdoc])*
                    $vis fn $param(mut self, $param: impl $crate::IntoParameter<$type>) -> Self {
                        self.0.insert(stringify!($param).into(), $param.into_value());
                        self
                    }
                )*
            }

            impl $crate::OperatorBuilder for Builder {
                fn into_parts(self) -> ($crate::Declaration, $crate::JsonObject) {
                    (<$Name as $crate::OperatorType>::DECLARATION, self.0)
                }
            }

            #[allow(dead_code, unreachable_pub)]
            impl $Name {
                /// Builds parameters for [`Plan::add`]($crate::Plan::add), with a method per field.
                $vis fn builder() -> Builder {
                    Builder::default()
                }
            }
        };
    };
}
